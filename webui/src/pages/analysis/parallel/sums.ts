/** Sums up ribbons, each of the trials that go from one bin of an axis to one of the next, pixel by pixel. */
import type { Cells } from "./bins";

/** Of a ribbon, in pixels, at least. */
export const THICK = 3;

/**
 * What goes through each pixel between two axes, column by column from the left: how many trials, and the sum
 * of how good they are. While ribbons are summed up it is the difference from the pixel above, so that a ribbon
 * is two numbers in each column, however thick it is.
 */
export interface Sums {
  columns: number;
  /** Of a column: the pixels, and one below them where ribbons may end. */
  height: number;
  trials: Float64Array;
  goodness: Float64Array;
}

/**
 * The ribbons of all cells; `left` and `right`: where the bins of the two axes are, in pixels from
 * the top; `goodnessOf`: from 0 to 1, of the mean of the metric, NaN if there is none.
 */
export function sumUp(
  { cells, counts, means }: Cells,
  left: readonly number[],
  right: readonly number[],
  columns: number,
  height: number,
  goodnessOf: (mean: number) => number,
): Sums {
  const stride = height + 1;
  const trials = new Float64Array(columns * stride);
  const goodness = new Float64Array(columns * stride);
  for (let index = 0; index < cells.length; index += 1) {
    const cell = cells[index] ?? 0;
    const count = counts[index] ?? 0;
    const good = count * goodnessOf(means[index] ?? NaN);
    const start = left[Math.floor(cell / right.length)] ?? 0;
    const slope = ((right[cell % right.length] ?? 0) - start) / columns;
    const thick = Math.max(THICK, Math.ceil(Math.abs(slope)) + 1); // a steep one has no gaps
    for (let column = 0; column < columns; column += 1) {
      const top = Math.floor(start + slope * column - thick / 2 + 0.5);
      const first = column * stride + Math.max(0, top);
      const after = column * stride + Math.min(height, top + thick);
      trials[first] = (trials[first] ?? 0) + count;
      trials[after] = (trials[after] ?? 0) - count;
      goodness[first] = (goodness[first] ?? 0) + good;
      goodness[after] = (goodness[after] ?? 0) - good;
    }
  }
  for (let at = 1; at < trials.length; at += 1) {
    trials[at] = (trials[at] ?? 0) + (trials[at - 1] ?? 0); // the last of a column is 0
    goodness[at] = (goodness[at] ?? 0) + (goodness[at - 1] ?? 0);
  }
  return { columns, height: stride, trials, goodness };
}
