import { useQuery } from "@tanstack/react-query";
import { answerOf, api } from "@/api/client";
import type { Shared } from "./shared";

/** How much each parameter matters for the shared metric and filter. */
export function useImportance({ id, filter, metric }: Shared) {
  const mode = metric.minimise ? "minimize" : "maximize";
  return useQuery({
    queryKey: ["live", id, "importance", filter, metric.name, mode],
    queryFn: ({ signal }) => {
      const params = { path: { id }, query: { filter, metric: metric.name, mode } as const };
      return answerOf(api.GET("/api/v1/experiments/{id}/analysis/importance", { params, signal }));
    },
  });
}
