import { LEVELS } from "@/ui/chart/colours";
import type { Metric } from "./shared";

const CLIPPED = 0.1; // the worst tenth has one colour, so that the others can be told apart

export function metricOf(
  name: string,
  label: string,
  values: Float32Array | Float64Array,
  shown: Uint32Array,
  minimise: boolean,
): Metric {
  const there = Float64Array.from(shown, (row) => values[row] ?? NaN)
    .filter((value) => !Number.isNaN(value))
    .sort();
  const at = (share: number) => there[Math.round(share * (there.length - 1))] ?? NaN;
  const [worst, best] = minimise ? [at(1 - CLIPPED), at(0)] : [at(CLIPPED), at(1)];
  const levels = new Uint8Array(values.length);
  for (let row = 0; row < values.length; row += 1) levels[row] = levelOf(values[row] ?? NaN, worst, best);
  return { name, label, minimise, values, worst, best, count: there.length, levels };
}

/** How good a value is, from 0 (the worst, or none) to 1. */
export function goodnessOf(value: number, worst: number, best: number): number {
  const share = (value - worst) / (best - worst || 1);
  return share > 0 ? Math.min(1, share) : 0;
}

/** The same from 0 to LEVELS - 1. */
export const levelOf = (value: number, worst: number, best: number): number =>
  Math.round(goodnessOf(value, worst, best) * (LEVELS - 1));

/** The row with the best value, or -1. */
export function bestRow(metric: Metric, rows: Uint32Array): number {
  let [found, best] = [-1, NaN];
  for (const row of rows) {
    const value = metric.values[row] ?? NaN;
    if (Number.isNaN(value)) continue;
    if (found < 0 || (metric.minimise ? value < best : value > best)) [found, best] = [row, value];
  }
  return found;
}
