import { expect, test } from "vitest";
import { smoothed } from "./curveData";

test("smoothing starts anew with each line", () => {
  const starts = new Uint32Array([0, 3, 4]);
  const y = new Float32Array([1, 1, 4, 8]);
  expect([...smoothed({ starts, y }, 0)]).toEqual([1, 1, 4, 8]);
  const smooth = smoothed({ starts, y }, 0.5);
  expect(smooth[0]).toBe(1);
  expect(smooth[1]).toBe(1);
  expect(smooth[2]).toBeGreaterThan(1);
  expect(smooth[2]).toBeLessThan(4);
  expect(smooth[3]).toBe(8);
});
