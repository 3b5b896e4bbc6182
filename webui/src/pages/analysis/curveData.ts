/** Intermediate curves of any number of trials, as the server has thinned them out. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { request } from "@/api/client";
import { unpack, type NumberArray } from "@/data/packed";

export interface CurvesQuestion {
  key: string;
  filter: string;
  lines: number;
  points: number;
  /** Only curves with a value between these (empty: open) at this step. */
  index: string;
  from: string;
  to: string;
}

export interface Curves {
  total: number;
  keys: readonly string[];
  sequences: NumberArray;
  /** Where each line's points begin, and where the last one's end. */
  starts: NumberArray;
  x: NumberArray;
  y: NumberArray;
  band: { x: NumberArray; low: NumberArray; middle: NumberArray; high: NumberArray; count: NumberArray };
}

export const curvesQuery = (id: string, question: CurvesQuestion) =>
  queryOptions({
    queryKey: ["live", id, "curves", question],
    queryFn: async ({ signal }): Promise<Curves> => {
      const { key, filter, lines, points, index, from, to } = question;
      const search = new URLSearchParams({ key, filter, lines: String(lines), points: String(points) });
      if (index !== "")
        for (const [name, text] of Object.entries({ index, from, to }))
          if (text !== "") search.set(name, text);
      const path = `/api/v1/experiments/${encodeURIComponent(id)}/analysis/curves?${search}`;
      const { header, columns } = unpack<{ total: number; keys: readonly string[] }>(
        await (await request(path, { signal })).arrayBuffer(),
      );
      const column = (name: string) => columns.get(name)?.values ?? new Float32Array(0);
      return {
        ...header,
        sequences: column("line.sequence"),
        starts: column("line.start"),
        x: column("x"),
        y: column("y"),
        band: {
          x: column("band.x"),
          low: column("band.p10"),
          middle: column("band.p50"),
          high: column("band.p90"),
          count: column("band.count"),
        },
      };
    },
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });

/** Each line's moving average: `weight` from 0 (as it is) to below 1 (hardly moves). */
export function smoothed({ starts, y }: Pick<Curves, "starts" | "y">, weight: number): Float64Array {
  const smooth = Float64Array.from(y);
  for (let line = 0; line + 1 < starts.length; line += 1) {
    let [sum, part] = [0, 0];
    for (let at = starts[line] ?? 0; at < (starts[line + 1] ?? 0); at += 1) {
      sum = weight * sum + (1 - weight) * (y[at] ?? NaN);
      part = weight * part + (1 - weight);
      smooth[at] = sum / part; // without the pull of the start towards 0
    }
  }
  return smooth;
}
