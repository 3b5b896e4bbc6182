import { expect, test } from "vitest";
import { byTrial, type FeedEntry } from "./feed";

function entry(number: number, trialId: string | null): FeedEntry {
  return {
    number,
    trialId,
    at: "2026-01-01T00:00:00Z",
    severity: "info",
    sentence: `Event ${number}.`,
    sequence: 0,
  };
}

const numbers = (entries: readonly FeedEntry[]) => entries.map(({ number }) => number);

test("events of one trial are put together at the newest", () => {
  const groups = byTrial([
    entry(9, "a"),
    entry(8, "b"),
    entry(7, null),
    entry(6, "a"),
    entry(5, "a"),
    entry(4, null),
  ]);
  expect(numbers(groups.map(({ newest }) => newest))).toEqual([9, 8, 7, 4]);
  expect(groups.map(({ earlier }) => numbers(earlier))).toEqual([[6, 5], [], [], []]);
});
