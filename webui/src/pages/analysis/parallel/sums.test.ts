import { expect, test } from "vitest";
import { sumUp } from "./sums";

const HEIGHT = 20;
const goodnessOf = (mean: number) => (Number.isNaN(mean) ? 0 : mean);

/** Two axes of two bins each: ribbons of 3 trials from top to top, and of 2 from top to bottom. */
function sums(means: number[]) {
  const cells = {
    cells: new Uint32Array([0, 1]),
    counts: new Uint32Array([3, 2]),
    means: new Float64Array(means),
  };
  const { height, trials, goodness } = sumUp(cells, [5, 15], [5, 15], 10, HEIGHT, goodnessOf);
  const column = (values: Float64Array, at: number) => [...values.slice(at * height, (at + 1) * height)];
  return { trials: (at: number) => column(trials, at), goodness: (at: number) => column(goodness, at) };
}

const among = (parts: Record<number, number>) =>
  Array.from({ length: HEIGHT + 1 }, (_, row) => parts[row] ?? 0);

test("each pixel has the trials of all ribbons that go through it, and no other", () => {
  const { trials } = sums([1, 0]);
  expect(trials(0)).toEqual(among({ 4: 5, 5: 5, 6: 5 }));
  expect(trials(2)).toEqual(among({ 4: 3, 5: 3, 6: 5, 7: 2, 8: 2 }));
  expect(trials(9)).toEqual(among({ 4: 3, 5: 3, 6: 3, 13: 2, 14: 2, 15: 2 }));
});

test("how good they are is weighted by their number", () => {
  const { goodness } = sums([0.5, 1]);
  expect(goodness(0)).toEqual(among({ 4: 3.5, 5: 3.5, 6: 3.5 }));
  expect(sums([0.5, NaN]).goodness(0)).toEqual(among({ 4: 1.5, 5: 1.5, 6: 1.5 }));
});
