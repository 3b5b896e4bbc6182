/** Which columns an experiment's trials have, and which trials match a filter. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, request } from "@/api/client";
import { unpack } from "./packed";

export const schemaQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "columns-schema"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}/columns/schema", { params: { path: { id } }, signal })),
  });

/** The sequences of the trials that match. */
export const filteredQuery = (id: string, filter: string) =>
  queryOptions({
    queryKey: ["live", id, "filtered", filter],
    queryFn: async ({ signal }) => {
      const search = new URLSearchParams({ names: "sequence", filter });
      const answer = await request(`/api/v1/experiments/${encodeURIComponent(id)}/columns?${search}`, {
        signal,
      });
      const values = unpack(await answer.arrayBuffer()).columns.get("sequence")?.values;
      return values instanceof Uint32Array ? values : new Uint32Array(0);
    },
    structuralSharing: false,
  });
