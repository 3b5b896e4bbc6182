/** The list of all experiments that the server knows. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type Summary = Schemas["ExperimentSummary"];

export const experimentsQuery = queryOptions({
  queryKey: ["list", "experiments"],
  queryFn: async ({ signal }) => (await answerOf(api.GET("/api/v1/experiments", { signal }))).experiments,
});

const ENDED = new Set(["DONE", "STOPPED", "ERROR"]);

/** Whether nothing of it runs any more; a resume or a view can follow. */
export const hasEnded = (item: Pick<Summary, "status">): boolean => ENDED.has(item.status);

/** What a stop of an experiment does with its running trials. */
export type WayToStop = "end" | "save" | "detach";
export const WAYS_TO_STOP: readonly WayToStop[] = ["end", "save", "detach"];

export const nameOf = (item: Pick<Summary, "id" | "name">): string => item.name || item.id;

/**
 * Deletes an experiment that has ended. Gives a sentence for each thing that was left on a machine.
 *
 * One that is done stays open until it is stopped, and can be deleted only then.
 */
export async function deleteExperiment(
  { id, status, served }: Pick<Summary, "id" | "status" | "served">,
  leaveUnreachable: boolean,
): Promise<string[]> {
  const path = { id };
  if (served && status !== "STOPPED") {
    const body = { detach: false, save: false };
    await answerOf(api.POST("/api/v1/experiments/{id}/stop", { params: { path }, body }));
  }
  const params = { path, query: { leaveUnreachable } };
  return [...(await answerOf(api.DELETE("/api/v1/experiments/{id}", { params }))).left];
}
