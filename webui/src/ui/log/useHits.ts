import { useDeferredValue, useMemo, useState } from "react";
import { strings } from "@/strings";
import type { LogLines } from "./lines";

export interface Hits {
  query: string;
  setQuery: (query: string) => void;
  /** Places among the lines that are kept. */
  hits: readonly number[];
  /** Goes to the next hit or the one before; its place, or null. */
  step: (by: 1 | -1) => number | null;
  /** The number of the line that was gone to last. */
  marked: number | null;
  mark: (number: number) => void;
  text: string;
}

/** The lines that have what is searched for. */
export function useHits(lines: LogLines, version: number): Hits {
  const [query, setQuery] = useState("");
  const [marked, setMarked] = useState<number | null>(null);
  const wanted = useDeferredValue(query);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- the lines change in place: the version says so
  const hits = useMemo(() => lines.hits(wanted), [lines, version, wanted]);
  const at = marked === null ? -1 : hits.indexOf(marked - lines.first);
  const step = (by: 1 | -1) => {
    if (hits.length === 0) return null;
    const near = marked === null ? undefined : marked - lines.first;
    let next = at < 0 && near !== undefined ? hits.findIndex((hit) => hit > near) : at + by;
    if (at < 0 && by === -1) next = (next < 0 ? hits.length : next) - 1;
    const index = hits[(next + hits.length) % hits.length];
    if (index === undefined) return null;
    setMarked(lines.first + index);
    return index;
  };
  const text =
    wanted === "" ? "" : hits.length === 0 ? strings.log.noHits : strings.log.hits(at + 1, hits.length);
  return { query, setQuery, hits, step, marked, mark: setMarked, text };
}
