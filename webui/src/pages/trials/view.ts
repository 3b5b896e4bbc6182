/** What the page shows, as its address says it: which trials, in which order, with which columns. */
import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";
import { STATUSES, type TrialsQuestion, type TrialStatus } from "@/data/trials";
import { remembered, remember } from "@/ui/remembered";

/** Which trials are selected: these, or all that match but these. */
export interface Selection {
  readonly all: boolean;
  readonly ids: ReadonlySet<string>;
}

/** A dialog of the page, and the trial that it is about. */
export interface OpenDialog {
  readonly name: string;
  readonly trialId: string;
}

export interface View {
  readonly question: TrialsQuestion;
  readonly columns: readonly string[];
  readonly selection: Selection;
  /** Ids of the trials whose details are shown. */
  readonly open: ReadonlySet<string>;
  readonly dialog: OpenDialog | null;
  /** Writes parts of the address; null: as if it were not there. `step`: the browser's "back" undoes it. */
  readonly write: (parts: Readonly<Record<string, string | null>>, step?: boolean) => void;
}

export const MOST_SELECTED = 1000;
const isStatus = (text: string): text is TrialStatus => STATUSES.some((status) => status === text);
const columnsKey = (id: string) => `nnimgr.columns.${id}`;

function split(text: string | null): string[] {
  return text === null || text === "" ? [] : text.split(",");
}

/** `usual`: the columns that are shown where none were chosen. */
export function useView(id: string, usual: readonly string[]): View {
  const [search, setSearch] = useSearchParams();
  const write = useCallback(
    (parts: Readonly<Record<string, string | null>>, step = false) => {
      setSearch(
        (before) => {
          const after = new URLSearchParams(before);
          for (const [name, value] of Object.entries(parts))
            if (value === null || value === "") after.delete(name);
            else after.set(name, value);
          return after;
        },
        { replace: !step },
      );
    },
    [setSearch],
  );
  const get = (name: string) => search.get(name);
  const [filter, typed, status, sort] = [get("filter"), get("search"), get("status"), get("sort")];
  const result = get("result");
  const question = useMemo(
    () => ({
      filter: filter ?? "",
      search: typed ?? "",
      statuses: split(status).filter(isStatus),
      withoutResult: result === "none",
      sort: (sort ?? "sequence").replace(/^-/, ""),
      descending: sort?.startsWith("-") ?? false,
    }),
    [filter, typed, status, result, sort],
  );
  const [columns, selected, open, dialog] = [get("columns"), get("selected"), get("open"), get("dialog")];
  return {
    question,
    columns: useMemo(() => chosenColumns(id, columns, usual), [id, columns, usual]),
    selection: useMemo(() => readSelection(selected), [selected]),
    open: useMemo(() => new Set(split(open)), [open]),
    dialog: useMemo(() => readDialog(dialog), [dialog]),
    write,
  };
}

/** The columns of the address, or those that were chosen last for this experiment, or the usual ones. */
function chosenColumns(id: string, written: string | null, usual: readonly string[]): readonly string[] {
  const chosen = written === null ? remembered(columnsKey(id)) : columnNames(written);
  return Array.isArray(chosen) && chosen.length > 0
    ? chosen.filter((name) => typeof name === "string")
    : usual;
}

/** Names may have commas in them, so that they are written as a JSON list without its brackets, if any has. */
function columnNames(written: string): unknown {
  if (!written.startsWith('"')) return split(written);
  try {
    return JSON.parse(`[${written}]`) as unknown;
  } catch {
    return [];
  }
}

/** The part of the address for these columns; they are remembered for the experiment. */
export function writtenColumns(id: string, columns: readonly string[]): Record<string, string> {
  remember(columnsKey(id), columns);
  const plain = columns.every((name) => !/[",]/.test(name));
  return { columns: plain ? columns.join(",") : JSON.stringify(columns).slice(1, -1) };
}

function readSelection(written: string | null): Selection {
  const parts = split(written);
  return { all: parts[0] === "all", ids: new Set(parts[0] === "all" ? parts.slice(1) : parts) };
}

export function writtenSelection({ all, ids }: Selection): { selected: string | null } {
  const parts = [...(all ? ["all"] : []), ...ids];
  return { selected: parts.length === 0 ? null : parts.join(",") };
}

export function isSelected({ all, ids }: Selection, trialId: string): boolean {
  return all !== ids.has(trialId);
}

function readDialog(written: string | null): OpenDialog | null {
  if (written === null) return null;
  const [name = "", trialId = ""] = written.split(":");
  return { name, trialId };
}
