/** The profile of an experiment, which nearly every page shows a part of. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type Profile = Schemas["Experiment"];

export const profileQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "profile"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}", { params: { path: { id } }, signal })),
  });
