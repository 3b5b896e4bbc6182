/** The machines of all experiments that are open on the server. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type Hosts = Schemas["Hosts"];
export type Host = Schemas["Host"];
export type HostTrial = Schemas["HostTrial"];
export type Machine = Schemas["Machine"];

export const hostsQuery = queryOptions({
  queryKey: ["list", "hosts"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/hosts", { signal })),
});

/** Those of one experiment, where its platform tells machines apart. */
export const machinesQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "machines"],
    queryFn: async ({ signal }) =>
      await answerOf(api.GET("/api/v1/experiments/{id}/machines", { params: { path: { id } }, signal })),
  });

export const MIB = 1024 * 1024;
