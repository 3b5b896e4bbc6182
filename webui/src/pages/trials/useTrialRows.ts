import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState } from "react";
import { windowQuery, WINDOW, type Trial, type TrialsQuestion } from "@/data/trials";

export interface ShownRows {
  /** What the rows answer: the question asked, or the one before while this one has no answer yet. */
  question: TrialsQuestion;
  rowAt: (index: number) => Trial | undefined;
}

export interface TrialRows extends ShownRows {
  /** How many rows there are; undefined before the first answer. */
  total: number | undefined;
  /** The question asked has no answer yet. */
  pending: boolean;
  error: unknown;
  retry: () => void;
}

const PACE_MS = 80; // between windows that are asked for while the rows fly by
const AHEAD = 4; // windows that are read before they come into view, while the view moves on steadily

/**
 * The rows that answer a question, read by windows as they come into view.
 *
 * Only the windows in view are observed, so that a change of the experiment reads no others again; their
 * neighbours are read ahead, more of them where the view is moving to. Windows that leave the view before their answer came are called off.
 */
export function useTrialRows(id: string, question: TrialsQuestion, first: number, last: number): TrialRows {
  const client = useQueryClient();
  const [shown, setShown] = useState<{ question: TrialsQuestion; total: number | undefined }>({
    question,
    total: undefined,
  });
  const fresh = shown.question !== question && JSON.stringify(shown.question) !== JSON.stringify(question);
  const inView = usePaced(`${Math.floor(first / WINDOW)}:${Math.floor(last / WINDOW)}`);
  const [from = 0, to = 0] = fresh ? [0, 0] : inView.split(":").map(Number);
  const windows = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const results = useQueries({ queries: windows.map((index) => windowQuery(id, question, index)) });

  const newest = results.reduce((a, b) => (b.dataUpdatedAt > a.dataUpdatedAt ? b : a), results[0] ?? NONE);
  const total = newest.data?.total;
  if (total !== undefined && (fresh || total !== shown.total)) setShown({ question, total });

  const [, arrived] = useReducer((times: number) => times + 1, 0); // nobody observes what is read ahead
  const settled = results.every((result) => result.data !== undefined);
  const travel = useRef({ from, way: 0 });
  useEffect(() => {
    const moved = from - travel.current.from;
    if (moved !== 0) travel.current = { from, way: Math.abs(moved) <= AHEAD ? Math.sign(moved) : 0 };
    const { way } = travel.current;
    if (shown.total === undefined || (!settled && way === 0)) return;
    const ahead = Array.from({ length: AHEAD }, (_, step) => (way > 0 ? to + 1 + step : from - 1 - step));
    for (const index of new Set([to + 1, from - 1, ...(way === 0 ? [] : ahead)]))
      if (index >= 0 && index * WINDOW < shown.total)
        client.query(windowQuery(id, question, index)).then(arrived, () => undefined);
  }, [client, id, question, settled, from, to, shown.total]);

  const { question: answered } = shown;
  const rowAt = useCallback(
    (index: number) =>
      client.getQueryData(windowQuery(id, answered, Math.floor(index / WINDOW)).queryKey)?.trials[
        index % WINDOW
      ],
    [client, id, answered],
  );
  return {
    total: shown.total,
    question: answered,
    pending: fresh,
    rowAt,
    error: results.find((result) => result.error !== null)?.error ?? null,
    retry: () => results.forEach((result) => void result.refetch()),
  };
}

const NONE = { dataUpdatedAt: 0, data: undefined };

/** The value, but changing only every PACE_MS. */
function usePaced(value: string): string {
  const [told, setTold] = useState(value);
  const last = useRef(0);
  // Before the paint: after a rest the request for what has come into view does not wait for its empty rows.
  useLayoutEffect(() => {
    const tell = () => {
      last.current = performance.now();
      setTold(value);
    };
    const left = last.current + PACE_MS - performance.now();
    if (left <= 0) {
      tell();
      return undefined;
    }
    const timer = setTimeout(tell, left);
    return () => clearTimeout(timer);
  }, [value]);
  return told;
}
