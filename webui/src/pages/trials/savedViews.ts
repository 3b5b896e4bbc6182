/** Saved views as parts of the page's address, and back. */
import type { ViewContent } from "@/data/annotations";
import { strings } from "@/strings";
import { writtenColumns, type View } from "./view";

/** What the page shows now, as it is saved. */
export function contentOf({ question, columns }: Pick<View, "question" | "columns">): ViewContent {
  return {
    columns: [...columns],
    filter: question.filter,
    search: question.search,
    statuses: [...question.statuses],
    withoutResult: question.withoutResult ?? false,
    sort: question.sort,
    order: question.descending ? "desc" : "asc",
  };
}

/** The parts of the address that show a saved view. */
export function writtenView(id: string, content: ViewContent): Record<string, string | null> {
  const { columns, filter, search, statuses, withoutResult, sort, order } = content;
  const written = `${order === "desc" ? "-" : ""}${sort}`;
  return {
    filter,
    search,
    status: statuses.join(","),
    result: withoutResult ? "none" : null,
    sort: written === "sequence" ? null : written,
    ...(columns.length === 0 ? { columns: null } : writtenColumns(id, columns)),
  };
}

/** Which trials a view shows, in which order. */
export function summaryOf({ filter, search, statuses, withoutResult, sort, order }: ViewContent): string {
  const parts = [
    ...statuses,
    ...(withoutResult ? [strings.trials.noResult] : []),
    ...(filter === "" ? [] : [filter]),
    ...(search === "" ? [] : [`"${search}"`]),
  ];
  const trials = parts.length === 0 ? strings.views.everything : parts.join("; ");
  return sort === "sequence" && order === "asc"
    ? trials
    : strings.views.sorted(trials, sort, order === "desc");
}
