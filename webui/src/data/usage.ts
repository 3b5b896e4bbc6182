/** What machines and trials use over time, as their keepers have written it down. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type UsageSample = Schemas["UsageSample"];

const REFRESH_MS = 10_000; // as often as keepers measure

/** The keepers of an experiment, also of one that has ended. */
export const keepersQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "keepers"],
    queryFn: async ({ signal }) =>
      (await answerOf(api.GET("/api/v1/experiments/{id}/keepers", { params: { path: { id } }, signal })))
        .keepers,
  });

/** Of the whole machine of a keeper. It is read there, so only while somebody looks. `live`: it is in use. */
export const machineUsageQuery = (id: string, keeper: string, live: boolean) =>
  queryOptions({
    queryKey: ["static", id, "usage", keeper, live],
    queryFn: async ({ signal }) =>
      (
        await answerOf(
          api.GET("/api/v1/experiments/{id}/keepers/{keeper}/usage", {
            params: { path: { id, keeper } },
            signal,
          }),
        )
      ).samples,
    staleTime: 0,
    refetchInterval: live ? REFRESH_MS : false,
    retry: false,
  });

/** Of an attempt. `live`: it still runs. */
export const trialUsageQuery = (id: string, trialId: string, attempt: number, live: boolean) =>
  queryOptions({
    queryKey: ["static", id, "usage", trialId, attempt, live],
    queryFn: async ({ signal }) =>
      (
        await answerOf(
          api.GET("/api/v1/experiments/{id}/trials/{trialId}/usage", {
            params: { path: { id, trialId }, query: { attempt } },
            signal,
          }),
        )
      ).samples,
    staleTime: 0,
    refetchInterval: live ? REFRESH_MS : false,
    retry: false,
  });
