/** Parallel coordinates as the server counts them: for more lines than can be drawn. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { request, type Schemas } from "@/api/client";
import { unpack, type NumberArray } from "@/data/packed";

export const BINS = 40;

interface Header {
  axes: readonly {
    name: string;
    log: boolean;
    bins: number;
    low: number;
    high: number;
    categories: readonly unknown[] | null;
  }[];
  total: number;
  selected: number;
}

/** Between two neighbouring axes: the cells that any trial goes through. */
export interface Cells {
  cells: NumberArray;
  counts: NumberArray;
  /** Of the metric. */
  means: NumberArray;
}

export interface Bins {
  header: Header;
  pairs: readonly Cells[];
}

export type Question = Pick<Schemas["ParallelQuestion"], "axes" | "brushes" | "filter" | "metric">;

async function ask(id: string, question: Question, signal?: AbortSignal): Promise<Bins> {
  const body = JSON.stringify({ ...question, bins: BINS, lines: 0, background: false });
  const path = `/api/v1/experiments/${encodeURIComponent(id)}/analysis/parallel`;
  const answer = await request(path, { method: "POST", body, ...(signal === undefined ? {} : { signal }) });
  const { header, columns } = unpack<Header>(await answer.arrayBuffer());
  const none = new Uint32Array(0);
  const pairs = header.axes.slice(1).map((_, pair) => ({
    cells: columns.get(`selected.${pair}.cells`)?.values ?? none,
    counts: columns.get(`selected.${pair}.counts`)?.values ?? none,
    means: columns.get(`selected.${pair}.mean`)?.values ?? none,
  }));
  return { header, pairs };
}

export const allBinsQuery = (id: string, question: Question) =>
  queryOptions({
    queryKey: ["live", id, "parallel", question],
    queryFn: ({ signal }) => ask(id, question, signal),
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });

/**
 * The answer to the latest question: one is under way at a time, and of those that come meanwhile the last is asked
 * next, so that a brush that moves fast is never behind by more than one answer. Null: nothing is asked.
 */
export function useLatestBins(id: string, question: Question | null, revision: number) {
  const [answer, setAnswer] = useState<{ bins: Bins; question: Question } | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const asking = useRef(false);
  const next = useRef<Question | null>(null);
  const gone = useRef(false);
  useEffect(() => {
    gone.current = false;
    return () => {
      gone.current = true;
    };
  }, []);
  useEffect(() => {
    next.current = question;
    if (asking.current) return;
    const turn = async () => {
      asking.current = true;
      while (next.current !== null && !gone.current) {
        const asked: Question = next.current;
        next.current = null;
        try {
          const bins = await ask(id, asked);
          setAnswer({ bins, question: asked });
          setFailure(null);
        } catch (error) {
          setFailure(error);
        }
      }
      asking.current = false;
    };
    void turn();
  }, [id, question, revision]);
  return { answer: question === null ? null : answer, failure };
}
