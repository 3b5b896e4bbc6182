import { expect, test } from "vitest";
import { axisOf, marksOf, scaleOf, zoomed } from "./scale";

test("values go to pixels and back", () => {
  const linear = scaleOf({ label: "", kind: "linear", min: 0, max: 10 }, null, 100, 200);
  expect(linear.at(5)).toBe(150);
  expect(linear.of(150)).toBe(5);
  const log = scaleOf({ label: "", kind: "log", min: 1e-4, max: 1 }, null, 0, 400);
  expect(log.at(1e-2)).toBeCloseTo(200);
  expect(log.of(100)).toBeCloseTo(1e-3);
});

test("an axis has room at its ends, leaves NaN out, and shows a single value", () => {
  const axis = axisOf("x", [NaN, 0, 100]);
  expect([axis.min, axis.max]).toEqual([-3, 103]);
  const single = axisOf("x", [4]);
  expect([single.min, single.max]).toEqual([2, 6]);
  const none = axisOf("x", []);
  expect([none.min, none.max]).toEqual([0, 1]);
});

test("a logarithmic axis has the positive values only", () => {
  const axis = axisOf("x", [-1, 0, 0.01, 1], { log: true });
  expect(axis.kind).toBe("log");
  expect(axis.min).toBeGreaterThan(0.005);
  expect(axisOf("x", [-1, -2], { log: true }).kind).toBe("linear");
});

test("marks are round numbers, decades, durations or categories", () => {
  const labels = (axis: Parameters<typeof scaleOf>[0], count: number) =>
    marksOf(scaleOf(axis, null, 0, 100), count).map(({ label }) => label);
  expect(labels({ label: "", kind: "linear", min: 0, max: 1 }, 5)).toEqual([
    "0",
    "0.2",
    "0.4",
    "0.6",
    "0.8",
    "1",
  ]);
  expect(labels({ label: "", kind: "log", min: 1e-5, max: 1 }, 6)).toEqual([
    "1e-5",
    "1e-4",
    "0.001",
    "0.01",
    "0.1",
    "1",
  ]);
  expect(labels({ label: "", kind: "time", min: 0, max: 7200 }, 4)).toEqual([
    "0 s",
    "30 min",
    "1 h",
    "1 h 30 min",
    "2 h",
  ]);
  expect(labels({ label: "", kind: "category", min: -0.5, max: 1.5, categories: ["a", "b"] }, 4)).toEqual([
    "a",
    "b",
  ]);
});

test("zooming keeps what is below the pointer, and stays on the axis", () => {
  const scale = scaleOf({ label: "", kind: "linear", min: 0, max: 10 }, null, 0, 100);
  expect(zoomed(scale, 50, 0.5, 0, 100)).toEqual([2.5, 7.5]);
  expect(zoomed(scale, 50, 4, 0, 100)).toEqual([0, 10]);
});
