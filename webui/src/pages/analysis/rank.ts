import type { Metric } from "./shared";

/** The metric with `count` levels by rank: as many trials in each, whatever lies between their values. */
export function byRank(metric: Metric, rows: Uint32Array, count: number): Metric {
  const { values, minimise } = metric;
  const ordered = rows.filter((row) => !Number.isNaN(values[row] ?? NaN));
  ordered.sort((a, b) => ((values[a] ?? 0) - (values[b] ?? 0)) * (minimise ? -1 : 1));
  const levels = new Uint8Array(values.length);
  const last = Math.max(1, ordered.length - 1);
  let first = 0; // of the equal values
  ordered.forEach((row, at) => {
    if (values[row] !== values[ordered[first] ?? row]) first = at;
    levels[row] = Math.round((first / last) * (count - 1));
  });
  return { ...metric, levels };
}
