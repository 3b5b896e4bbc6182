/** From which checkpoints trials have continued. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type Leg = Schemas["Leg"];
export type Lineage = Schemas["Lineage"];

/** Read again when the experiment moves on. */
export const lineageQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "lineage"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}/lineage", { params: { path: { id } }, signal })),
  });
