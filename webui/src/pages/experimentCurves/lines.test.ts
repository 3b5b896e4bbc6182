import { expect, test } from "vitest";
import { stepsOf } from "./lines";

const history = {
  revision: 1,
  minimise: true,
  results: 3,
  improvements: 2,
  lastSequence: 9,
  points: [
    { sequence: 2, trialId: "a", endedS: 40, value: 5 },
    { sequence: 4, trialId: "b", endedS: 30, value: 3 },
  ],
};

test("over trials, the best goes on to the newest trial", () => {
  expect(stepsOf(history, false)).toEqual([
    [2, 5],
    [4, 3],
    [9, 3],
  ]);
});

test("over time, improvements stand in the order in which they came", () => {
  expect(stepsOf(history, true)).toEqual([
    [30, 3],
    [40, 5],
  ]);
});
