import { expect, test } from "vitest";
import type { Summary } from "@/data/experiments";
import { newsBetween } from "./news";

const item = (status: string, bestValue: number | null = null, id = "a"): Summary =>
  ({ id, name: "mnist", status, reason: "60 of 60 trials", bestValue }) as Summary;

test("an end is news once", () => {
  const [running, done] = [[item("RUNNING", 0.5)], [item("DONE", 0.75)]];
  expect(newsBetween(running, done)).toEqual([
    { id: "a", title: "mnist is DONE", text: "60 of 60 trials Best result: 0.75." },
  ]);
  expect(newsBetween(done, done)).toEqual([]);
});

test("a better result is news while the experiment runs", () => {
  expect(newsBetween([item("RUNNING", 0.5)], [item("RUNNING", 0.75)])).toEqual([
    { id: "a", title: "mnist", text: "New best result: 0.75." },
  ]);
  expect(newsBetween([item("RUNNING", 0.5)], [item("RUNNING", 0.5)])).toEqual([]);
});

test("an experiment that was not known is no news", () => {
  expect(newsBetween([], [item("DONE", 1)])).toEqual([]);
});
