import { expect, test } from "vitest";
import { matching, MOST_SHOWN, trialNumberIn, type Offer } from "./offers";

const offer = (label: string, words = ""): Offer => ({
  id: label,
  label,
  words,
  kind: "",
  run: () => undefined,
});
const labels = (offers: readonly Offer[]) => offers.map(({ label }) => label);

test("beginnings of words come before other places", () => {
  const offers = [offer("Reopen"), offer("Open the trials"), offer("Overview")];
  expect(labels(matching(offers, "open"))).toEqual(["Open the trials", "Reopen"]);
  expect(labels(matching(offers, "tri op"))).toEqual(["Open the trials"]);
  expect(labels(matching(offers, ""))).toEqual(["Reopen", "Open the trials", "Overview"]);
});

test("ids find what they belong to", () => {
  expect(labels(matching([offer("mnist", "oat6gl75"), offer("iris", "b7")], "oat6"))).toEqual(["mnist"]);
});

test("there is an end to what is shown", () => {
  const many = Array.from({ length: 50 }, (_, at) => offer(`experiment ${at}`));
  expect(matching(many, "exp")).toHaveLength(MOST_SHOWN);
});

test.each([
  ["12", 12],
  ["#7", 7],
  ["trial 3", 3],
  ["Trial No. 4", 4],
  ["abc12", null],
  ["", null],
])("%j means the trial %j", (typed, expected) => {
  expect(trialNumberIn(typed)).toBe(expected);
});
