import { expect, test } from "vitest";
import { byRank } from "./rank";
import type { Metric } from "./shared";

const metric = (values: number[], minimise: boolean) =>
  ({ values: Float64Array.from(values), minimise }) as unknown as Metric;
const LEVELS = 24;
const ROWS = Uint32Array.of(0, 1, 2, 3, 4);

test("ranks are even where values are not, and equal values have one rank", () => {
  const found = byRank(metric([1000, 1, 2, 2, NaN], false), ROWS, LEVELS).levels;
  const top = LEVELS - 1;
  expect([...found]).toEqual([top, 0, Math.round(top / 3), Math.round(top / 3), 0]);
});

test("the smallest is the best if the metric is minimised", () => {
  expect(byRank(metric([3, 1, 2, 5, 4], true), ROWS, LEVELS).levels[1]).toBe(LEVELS - 1);
});
