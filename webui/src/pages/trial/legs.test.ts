import { expect, test } from "vitest";
import type { Leg } from "@/data/lineage";
import { changesOf, changeText, legAt, legsSentence, marksOf } from "./legs";

const LEG: Leg = {
  trialId: "t",
  leg: 1,
  attempt: 2,
  at: "2026-01-05T08:00:00Z",
  parameters: {},
  reports: 4,
  originTrialId: "d",
  originAttempt: 1,
  originNumber: 1,
  step: 4,
  savedAt: null,
  reason: "it was the worst",
};
const legs = (...all: Partial<Leg>[]): Leg[] =>
  all.map((each, at) => ({ ...LEG, leg: at + 1, attempt: at + 2, ...each }));

test("a leg is told by what differs from the leg before", () => {
  const changes = changesOf(
    legs({ parameters: { lr: 0.2, m: 1 } }, { parameters: { lr: 0.2, m: 1 } }, { parameters: { lr: 0.1 } }),
    { lr: 0.1, m: 1 },
  );
  expect(changes.map((each) => each.map(changeText))).toEqual([
    ["lr 0.1 → 0.2"],
    [],
    ["lr 0.2 → 0.1", "m 1 → –"],
  ]);
});

test("a curve shows no leg whose results a later one has replaced", () => {
  const marks = marksOf(legs({ reports: 4 }, { reports: 8 }, { reports: 8 }, { reports: 12 }), {});
  expect(marks.map(({ leg, reports }) => [leg, reports])).toEqual([
    [1, 4],
    [3, 8],
    [4, 12],
  ]);
  expect(marksOf(legs({ reports: 8 }, { reports: 4 }), {}).map(({ leg }) => leg)).toEqual([2]);
  expect([0, 4, 11, 12].map((step) => legAt(marks, step)?.leg)).toEqual([undefined, 1, 3, 4]);
});

test("a sentence says where the legs begin, of many the newest", () => {
  expect(legsSentence([])).toBeNull();
  expect(legsSentence(marksOf(legs({ reports: 4 }, { reports: 8 }), {}))).toBe(
    "Legs: leg 1 from step 4, leg 2 from step 8.",
  );
  const many = marksOf(legs(...Array.from({ length: 7 }, (_, at) => ({ reports: at }))), {});
  expect(legsSentence(many)).toMatch(/^The newest 5 of 7 legs: leg 3 from step 2, /);
});
