import { expect, test } from "vitest";
import { shareOfResults } from "./edfData";

const values = Float64Array.of(0.5, NaN, 0.25, 0.75, 0.25);

test("the best come first, in the order of the rows where they are equal", () => {
  const rows = Uint32Array.of(0, 1, 2, 3, 4);
  expect([...shareOfResults({ values, minimise: true }, rows).rows]).toEqual([2, 4, 0, 3]);
  expect([...shareOfResults({ values, minimise: false }, rows).values]).toEqual([0.75, 0.5, 0.25, 0.25]);
});

test("rows that are not selected are left out", () => {
  expect([...shareOfResults({ values, minimise: true }, Uint32Array.of(1, 3)).values]).toEqual([0.75]);
});
