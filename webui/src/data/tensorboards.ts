/** The TensorBoards that the server has started for an experiment. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type TensorBoard = Schemas["TensorBoard"];

const ENDED: ReadonlySet<string> = new Set(["STOPPED", "ERROR"]);

export const runs = (task: Pick<TensorBoard, "status">): boolean => !ENDED.has(task.status);

/** No fact of the experiment says that a TensorBoard has changed, so it is read whenever it is shown. */
export const tensorboardsQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "tensorboards"],
    queryFn: async ({ signal }) => {
      const params = { path: { id } };
      const call = api.GET("/api/v1/experiments/{id}/tensorboards", { params, signal });
      return (await answerOf(call)).tensorboards;
    },
    staleTime: 0,
  });

/** Starts a TensorBoard over these trials; null: over all trials. */
export function startTensorboard(id: string, trialIds: readonly string[] | null): Promise<TensorBoard> {
  const body = { trialIds: trialIds === null ? null : [...trialIds] };
  return answerOf(api.POST("/api/v1/experiments/{id}/tensorboards", { params: { path: { id } }, body }));
}

export function stopTensorboard(id: string, task: string): Promise<TensorBoard> {
  const params = { path: { id, task } };
  return answerOf(api.DELETE("/api/v1/experiments/{id}/tensorboards/{task}", { params }));
}
