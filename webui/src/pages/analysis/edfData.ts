import type { Metric } from "./shared";

/** The results of these rows, the best first, and the row of each. */
export function shareOfResults(
  { values, minimise }: Pick<Metric, "values" | "minimise">,
  among: Uint32Array,
): { values: Float64Array; rows: Uint32Array } {
  const rows = among.filter((row) => Number.isFinite(values[row] ?? NaN));
  rows.sort((a, b) => ((values[a] ?? 0) - (values[b] ?? 0)) * (minimise ? 1 : -1) || a - b);
  return { values: Float64Array.from(rows, (row) => values[row] ?? NaN), rows };
}
