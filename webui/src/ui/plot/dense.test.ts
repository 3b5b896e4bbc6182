import { expect, test } from "vitest";
import { rasterOf } from "./dense";

const raster = (places: [number, number, number][], size: number) =>
  rasterOf(
    Uint32Array.from(places, (_, row) => row),
    (row) => places[row]?.[0] ?? NaN,
    (row) => places[row]?.[1] ?? NaN,
    size,
    { width: 4, height: 3 },
    (row) => places[row]?.[2] ?? 0,
  );

test("points over each other are counted, and the highest of their levels is kept", () => {
  const { counts, levels } = raster(
    [
      [1, 1, 3],
      [1, 1, 1],
      [2, 1, 0],
    ],
    2,
  );
  expect([...counts]).toEqual([2, 3, 1, 0, 2, 3, 1, 0, 0, 0, 0, 0]);
  expect([...levels]).toEqual([3, 3, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0]);
});

test("what has no place, or one outside, is left out; a mark at the edge is cut", () => {
  const { counts } = raster(
    [
      [NaN, 1, 0],
      [5, 1, 0],
      [0, 0, 0],
      [4, 3, 0],
    ],
    2,
  );
  expect([...counts]).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
});

test("a pixel counts no further than it can", () => {
  const { counts } = raster(
    Array.from({ length: 300 }, () => [1, 1, 0]),
    1,
  );
  expect(Math.max(...counts)).toBe(255);
});
