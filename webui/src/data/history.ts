/** The best result so far of an experiment, in few points. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "@/api/client";

const POINTS = 40;

const MANY_POINTS = 400;

/** Read again when the experiment moves on. */
export const bestSoFarQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "best so far", MANY_POINTS],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/analysis/history", {
          params: { path: { id }, query: { points: MANY_POINTS } },
          signal,
        }),
      ),
  });

/** For a sparkline: read again only when the best value is another one. */
export const sparklineQuery = (id: string, best: number) =>
  queryOptions({
    queryKey: ["static", "sparkline", id, best],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/analysis/history", {
          params: { path: { id }, query: { points: POINTS } },
          signal,
        }),
      ),
    gcTime: 600_000,
    retry: false,
  });
