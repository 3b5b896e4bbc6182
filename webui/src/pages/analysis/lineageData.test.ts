import { expect, test } from "vitest";
import type { Lineage } from "@/data/lineage";
import { parametersOf, pictureOf, scaleOf, stretchAt } from "./lineageData";

const at = (second: number) => new Date(second * 1000).toISOString();
const trial = (sequence: number, lr: number, ended: number | null = 20): Lineage["trials"][number] => ({
  trialId: `t${sequence}`,
  sequence,
  status: ended === null ? "RUNNING" : "SUCCEEDED",
  parameters: { lr, act: "relu" },
  intermediates: 8,
  startedAt: at(1),
  endedAt: ended === null ? null : at(ended),
});
const ORIGIN = { originTrialId: "t0", originAttempt: 1, originNumber: 2, step: 4, savedAt: at(9) };
const leg = (number: number, second: number, lr: number, more: object = {}): Lineage["legs"][number] => ({
  ...ORIGIN,
  trialId: "t1",
  leg: number,
  attempt: number + 1,
  at: at(second),
  parameters: { lr, act: "relu" },
  reports: 4 * number,
  reason: "it was the worst",
  ...more,
});
const LINEAGE: Lineage = {
  trials: [trial(0, 0.1), trial(1, 0.5, null), { ...trial(5, 0.1), startedAt: at(25), endedAt: at(28) }],
  legs: [leg(1, 10, 0.12), leg(2, 15, 0.15, { originTrialId: "t1" })],
  forks: [{ ...ORIGIN, trialId: "t5", reports: 4 }],
};
const picture = (shows: (sequence: number) => boolean = () => true) => pictureOf(LINEAGE, shows, 0, 30_000);

test("each trial has a lane, the first at the top, and its legs follow each other", () => {
  const { lanes, stretches } = picture();
  expect(lanes.map(({ sequence }) => sequence)).toEqual([5, 1, 0]);
  expect(stretches.map(({ lane, leg, from, to, reports }) => [lane, leg, from, to, reports])).toEqual([
    [0, 0, 25, 28, 4],
    [1, 0, 1, 10, 0],
    [1, 1, 10, 15, 4],
    [1, 2, 15, 30, 8],
    [2, 0, 1, 20, 0],
  ]);
  expect(stretches.map(({ origin }) => origin && [origin.sequence, origin.step, origin.fork])).toEqual([
    [0, 4, true],
    null,
    [0, 4, false],
    [1, 4, false],
    null,
  ]);
});

test("arrows lead from the saved checkpoint to the leg of another trial", () => {
  const { arrows } = picture();
  expect(arrows.map(({ lane, at, heir }) => [lane, at, heir.lane, heir.leg])).toEqual([
    [2, 9, 0, 0],
    [2, 9, 1, 1],
  ]);
});

test("trials that are not shown have no lane and no arrows", () => {
  const { lanes, arrows, stretches } = picture((sequence) => sequence !== 0);
  expect(lanes.length).toBe(2);
  expect(arrows).toEqual([]);
  expect(stretches[2]?.origin?.sequence).toBe(0);
});

test("a trial that has not started has no leg", () => {
  const waiting = { ...LINEAGE, trials: [{ ...trial(0, 0.1), startedAt: null }], legs: [], forks: [] };
  expect(pictureOf(waiting, () => true, 0, 30_000)).toMatchObject({
    lanes: [{ sequence: 0 }],
    stretches: [],
  });
});

test("legs are coloured by a parameter with several values", () => {
  const { stretches } = picture();
  expect(parametersOf(stretches)).toEqual(["lr"]);
  const scale = scaleOf(stretches, "lr");
  expect(scale).toMatchObject({ kind: "range", low: 0.1, high: 0.5 });
  expect([0.1, 0.3, 0.5, "x"].map(scale.placeOf)).toEqual([0, expect.closeTo(0.5), 1, null]);
  const texts = scaleOf(stretches, "act");
  expect(texts).toMatchObject({ kind: "values", values: ["relu"] });
  expect([texts.placeOf("relu"), texts.placeOf(undefined)]).toEqual([0, null]);
});

test("a wide range of numbers is coloured by logarithms", () => {
  const { stretches } = pictureOf(
    { ...LINEAGE, trials: [trial(0, 0.001), trial(1, 1)], legs: [] },
    () => true,
    0,
    1,
  );
  expect(scaleOf(stretches, "lr").placeOf(0.0316)).toBeCloseTo(0.5);
});

test("the leg below the pointer is found by its lane and its time", () => {
  const { stretches } = picture();
  expect(stretchAt(stretches, 1, 12)?.leg).toBe(1);
  expect(stretchAt(stretches, 2, 21)).toBeUndefined();
});
