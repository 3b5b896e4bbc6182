/** The Pareto set of an experiment with several objectives: the trials that none other beats in all of them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";
import type { Objective } from "@/data/experiment";

export type ParetoSet = Schemas["ParetoSet"];

const MOST = 1000; // more are spread evenly

export const paretoQuery = (id: string, filter: string) =>
  queryOptions({
    queryKey: ["live", id, "pareto", filter],
    queryFn: ({ signal }) => {
      const params = { path: { id }, query: { filter, limit: MOST } };
      return answerOf(api.GET("/api/v1/experiments/{id}/analysis/pareto", { params, signal }));
    },
    placeholderData: keepPreviousData,
  });

export interface Corner {
  x: number;
  y: number;
}

/**
 * The limit of what these trials reach by two objectives, as corners of steps: from where the first objective is best
 * to where the second is. Of a set by more objectives it leaves out who is beaten in these two.
 */
export function staircase(
  places: readonly Corner[],
  x: Pick<Objective, "mode">,
  y: Pick<Objective, "mode">,
): Corner[] {
  const [signX, signY] = [x.mode === "minimize" ? 1 : -1, y.mode === "minimize" ? 1 : -1];
  const ordered = places
    .filter((place) => Number.isFinite(place.x) && Number.isFinite(place.y))
    .sort((a, b) => signX * (a.x - b.x) || signY * (a.y - b.y));
  const corners: Corner[] = [];
  for (const place of ordered) {
    const last = corners.at(-1);
    if (last === undefined) corners.push(place);
    else if (signY * (place.y - last.y) < 0) corners.push({ x: place.x, y: last.y }, place);
  }
  return corners;
}
