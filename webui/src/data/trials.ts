/** Trials by pages, as the server filters and sorts them. */
import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type Trial = Schemas["Trial"];
export type TrialStatus = Schemas["TrialStatus"];
export type Column = Schemas["Column"];

/** Which trials, in which order. */
export interface TrialsQuestion {
  readonly filter: string;
  readonly search: string;
  readonly statuses: readonly TrialStatus[];
  /** Only those that have succeeded without a usable result. */
  readonly withoutResult?: boolean;
  readonly sort: string;
  readonly descending: boolean;
}

export const STATUSES: readonly TrialStatus[] = [
  "WAITING",
  "RUNNING",
  "PAUSED",
  "UNKNOWN",
  "SUCCEEDED",
  "FAILED",
  "EARLY_STOPPED",
  "USER_CANCELED",
  "SYS_CANCELED",
];
/** Those of trials that can be stopped. */
export const LIVE_STATUSES: readonly TrialStatus[] = ["WAITING", "RUNNING", "PAUSED", "UNKNOWN"];

const ANY = { search: "", statuses: [], sort: "sequence", descending: false } as const;

export const WINDOW = 50; // rows that are read at once
const KEPT_MS = 20_000; // of windows that were scrolled away, since a window is large
const PAGE = 1000;

function queryOf({ filter, search, statuses, withoutResult, sort, descending }: TrialsQuestion) {
  return {
    ...(filter === "" ? {} : { filter }),
    ...(search === "" ? {} : { search }),
    ...(statuses.length === 0 ? {} : { status: [...statuses] }),
    ...(withoutResult === true ? { withoutResult } : {}),
    sort,
    order: descending ? ("desc" as const) : ("asc" as const),
  };
}

/** One window of the rows that answer the question: those from `index * WINDOW`. */
export const windowQuery = (id: string, question: TrialsQuestion, index: number) =>
  queryOptions({
    queryKey: ["live", id, "trials", question, index],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/trials", {
          params: {
            path: { id },
            query: { ...queryOf(question), offset: index * WINDOW, limit: WINDOW },
          },
          signal,
        }),
      ),
    gcTime: KEPT_MS,
    retry: false,
  });

/** All trials that answer the question, page by page: only for what is done to few of them. */
export async function readTrials(
  id: string,
  question: TrialsQuestion,
  signal?: AbortSignal,
): Promise<Trial[]> {
  const trials: Trial[] = [];
  for (;;) {
    const page = await answerOf(
      api.GET("/api/v1/experiments/{id}/trials", {
        params: { path: { id }, query: { ...queryOf(question), offset: trials.length, limit: PAGE } },
        ...(signal === undefined ? {} : { signal }),
      }),
    );
    trials.push(...page.trials);
    if (trials.length >= page.total || page.trials.length === 0) return trials;
  }
}

export const trialQuery = (id: string, trialId: string) =>
  queryOptions({
    queryKey: ["live", id, "trial", trialId],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/trials/{trialId}", { params: { path: { id, trialId } }, signal }),
      ),
  });

/** The trials with these ids, as far as there are any, in this order. */
export const trialsQuery = (id: string, trialIds: readonly string[]) =>
  queryOptions({
    queryKey: ["live", id, "some trials", trialIds],
    queryFn: async ({ signal }) => {
      const question = { filter: `id:[${trialIds.map((one) => JSON.stringify(one)).join(", ")}]`, ...ANY };
      const found = await readTrials(id, question, signal);
      return trialIds.flatMap((one) => found.find((trial) => trial.id === one) ?? []);
    },
    enabled: trialIds.length > 0,
  });

/** The columns that a filter or the table may name. Their names hardly ever change: read again on purpose. */
export const schemaQuery = (id: string) =>
  queryOptions({
    queryKey: ["static", id, "columns"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}/columns/schema", { params: { path: { id } }, signal })),
  });

export function readSchemaAgain(client: QueryClient, id: string): void {
  void client.invalidateQueries({ queryKey: schemaQuery(id).queryKey });
}

/** Where the browser gets the trials as a file. */
export function exportAddress(
  id: string,
  format: "csv" | "json",
  question: TrialsQuestion,
  trialIds: readonly string[] = [],
): string {
  const query = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(queryOf(question)))
    for (const one of Array.isArray(value) ? value : [String(value)]) query.append(name, one);
  if (trialIds.length > 0) query.set("trialIds", trialIds.join(","));
  return `/api/v1/experiments/${encodeURIComponent(id)}/trials/export?${query.toString()}`;
}
