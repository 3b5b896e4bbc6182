import { expect, test } from "vitest";
import { objectivesOf } from "@/data/experiment";
import { metricsOf } from "./objectives";
import { staircase } from "./paretoData";
import type { Described } from "./shared";

const [MOST, LEAST] = [{ mode: "maximize" }, { mode: "minimize" }] as const;
const at = (...places: [number, number][]) => places.map(([x, y]) => ({ x, y }));

test("steps go round what the trials beat, from the best by the first to the best by the second", () => {
  const best = at([3, 1], [1, 3], [2, 2]);
  expect(staircase(best, MOST, MOST)).toEqual(at([3, 1], [2, 1], [2, 2], [1, 2], [1, 3]));
  expect(staircase(at([1, 2], [2, 1]), LEAST, LEAST)).toEqual(at([1, 2], [2, 2], [2, 1]));
  expect(staircase(at([0.9, 30], [0.8, 10]), MOST, LEAST)).toEqual(at([0.9, 30], [0.8, 30], [0.8, 10]));
});

test("who is beaten in these two objectives, and who has no place, is left out", () => {
  const places = at([3, 3], [2, 2], [3, 1], [NaN, 9], [3, 3]);
  expect(staircase(places, MOST, MOST)).toEqual(at([3, 3]));
  expect(staircase([], MOST, LEAST)).toEqual([]);
});

test("objectives come first among the metrics, and say what is best", () => {
  const objectives = objectivesOf({ objectives: { accuracy: "maximize", latency: "minimize" } });
  expect(objectives.map(({ column }) => column)).toEqual(["value", "metrics.latency"]);
  const described = ["status", "value", "metrics.accuracy", "metrics.epochs", "metrics.latency"].map(
    (name) => ({ name }) as Described,
  );
  expect(metricsOf(described, objectives)).toEqual([
    ["value", "accuracy (highest)"],
    ["metrics.latency", "latency (lowest)"],
    ["metrics.epochs", "epochs"],
  ]);
});

test("without objectives there is the one result", () => {
  expect(objectivesOf({})).toEqual([]);
  expect(metricsOf([{ name: "value" } as Described], [])).toEqual([["value", "result"]]);
});
