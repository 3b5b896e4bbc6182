/**
 * What is cached, and what makes it old.
 *
 * A key begins with what it follows: ["live", id, …] is read again when that experiment moves on, ["list", …]
 * when any does, ["static", …] only on purpose (and after a reconnect).
 */
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "@/api/client";
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

const KEEP_RUNNING = { cancelRefetch: false }; // a busy experiment must not starve its own page

export const liveStream = new LiveStream({
  changed(experiment) {
    void queryClient.invalidateQueries({ queryKey: ["live", experiment] }, KEEP_RUNNING);
    void queryClient.invalidateQueries({ queryKey: ["list"] }, KEEP_RUNNING);
  },
  reconnected() {
    void queryClient.invalidateQueries();
  },
});
