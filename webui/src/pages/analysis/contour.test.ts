import { expect, test } from "vitest";
import { levelsBetween } from "./contour";

const GRID = { wide: 11, high: 1, cell: 10 };

test("levels change from one trial to the other", () => {
  const levels = levelsBetween(
    [
      { x: 5, y: 5, level: 0 },
      { x: 105, y: 5, level: 10 },
    ],
    GRID,
  );
  expect(levels[0]).toBeLessThan(0.01);
  expect(levels[5]).toBeCloseTo(5);
  expect(levels[10]).toBeGreaterThan(9.99);
  expect([...levels]).toEqual([...levels].sort((a, b) => a - b));
});

test("without trials there is nothing between them", () => {
  expect([...levelsBetween([], GRID)].every(Number.isNaN)).toBe(true);
});
