import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { countOf, longer, NOTHING, summaryOf, type Curve } from "./metrics";

function metric(number: number, attempt = 1): Schemas["Metric"] {
  return {
    number,
    trialId: "abcde",
    attempt,
    position: number,
    parameterId: null,
    type: "PERIODICAL",
    sequence: number,
    at: "2026-01-01T00:00:00Z",
    value: number / 10,
    text: String(number / 10),
  };
}

const THINNED: Curve = {
  attempt: 1,
  points: [
    { step: 0, values: { default: 1 } },
    { step: 999, values: { default: 3 } },
  ],
  total: 1000,
  after: 1000,
};

test("what is new goes behind a curve of few points", () => {
  const curve = longer(THINNED, [metric(1001), metric(1002)]);
  expect(curve.points.map(({ step }) => step)).toEqual([0, 999, 1001, 1002]);
  expect([curve.total, curve.after]).toEqual([1002, 1002]);
  expect(longer(curve, [])).toBe(curve);
});

test("a later attempt begins another curve", () => {
  const curve = longer(THINNED, [metric(1001), metric(1002, 2)]);
  expect(curve).toMatchObject({ attempt: 2, total: 1, after: 1002 });
});

test("a summary tells how many results there are, not how many are drawn", () => {
  expect(countOf(THINNED, [1, 3])).toBe(1000);
  expect(countOf(longer(NOTHING, [metric(1)]), [0.1])).toBe(1);
  expect(summaryOf(THINNED, "default")).toMatch(/^1.?000 values/);
});
