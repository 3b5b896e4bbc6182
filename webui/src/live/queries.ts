/**
 * What is cached, and what makes it old.
 *
 * A key begins with what it follows: ["live", id, …] is read again when that experiment moves on, ["list", …]
 * when any does, ["static", …] only on purpose (and after a reconnect).
 */
import { QueryClient, type QueryKey } from "@tanstack/react-query";
import { ApiError } from "@/api/client";
import { paced } from "./paced";
import { LiveStream } from "./stream";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: Infinity, // the stream says when something is old
      gcTime: 60_000,
      retry: (count, error) => error instanceof ApiError && error.status === 0 && count < 2,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
  },
});

const LIST_PACE_MS = 1000; // a list holds every experiment, however few have moved on
const KEEP_RUNNING = { cancelRefetch: false }; // a busy experiment must not starve its own page

/** The queries that were being read when something changed: that answer may have been too early. */
const tooEarly = new Set<string>();

function makeOld(queryKey: QueryKey): void {
  for (const query of queryClient.getQueryCache().findAll({ queryKey, fetchStatus: "fetching" }))
    tooEarly.add(query.queryHash);
  void queryClient.invalidateQueries({ queryKey }, KEEP_RUNNING);
}

queryClient.getQueryCache().subscribe((event) => {
  if (event.type === "removed") tooEarly.delete(event.query.queryHash);
  if (event.type !== "updated" || (event.action.type !== "success" && event.action.type !== "error")) return;
  if (!tooEarly.delete(event.query.queryHash)) return;
  const queryKey: QueryKey = event.query.queryKey as QueryKey; // TanStack says any
  queueMicrotask(() => void queryClient.invalidateQueries({ queryKey, exact: true }, KEEP_RUNNING));
});

const makeListsOld = paced(() => makeOld(["list"]), LIST_PACE_MS);

export const liveStream = new LiveStream({
  changed(experiment) {
    makeOld(["live", experiment]);
    makeListsOld();
  },
  reconnected() {
    void queryClient.invalidateQueries();
  },
});
