/** The Pareto set of an experiment with several objectives: the trials that none other beats in all of them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { request } from "@/api/client";
import type { Objective } from "@/data/experiment";

export interface ParetoSet {
  objectives: readonly Objective[];
  /** How many trials have succeeded with all objectives. */
  results: number;
  /** How many of them are in the set: `trials` has all, or of very many some. */
  total: number;
  trials: readonly {
    sequence: number;
    trialId: string;
    values: Readonly<Record<string, number>>;
  }[];
}

const MOST = 1000; // more are spread evenly

export const paretoQuery = (id: string, filter: string) =>
  queryOptions({
    queryKey: ["live", id, "pareto", filter],
    queryFn: async ({ signal }): Promise<ParetoSet> => {
      const search = new URLSearchParams({ filter, limit: String(MOST) });
      const path = `/api/v1/experiments/${encodeURIComponent(id)}/analysis/pareto?${search}`;
      return (await (await request(path, { signal })).json()) as ParetoSet;
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
