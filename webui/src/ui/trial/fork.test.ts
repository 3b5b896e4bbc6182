import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { newestPoint, whereOf } from "./fork";

const SAVED: Schemas["Checkpoint"] = {
  attempt: 1,
  number: 1,
  step: 4,
  size: 10,
  files: 1,
  at: "2026-01-05T08:00:00Z",
  state: "saved",
  kept: false,
  stored: false,
  pinned: false,
};
const trialWith = (...checkpoints: Schemas["Checkpoint"][]) =>
  ({ id: "t", checkpoints }) as unknown as Schemas["TrialDetail"];

test("a fork continues from the newest checkpoint that is kept", () => {
  const trial = trialWith(SAVED, { ...SAVED, number: 2, step: 8 }, { ...SAVED, number: 3, state: "deleted" });
  const point = newestPoint(trial);
  expect(point?.checkpoint.number).toBe(2);
  expect(point === null ? null : whereOf(point)).toBe("the newest checkpoint, which is step 8 at present");
  expect(newestPoint(trialWith({ ...SAVED, state: "deleted" }))).toBeNull();
});

test("a checkpoint without a step is named by its number", () => {
  const point = { trialId: "t", checkpoint: { ...SAVED, step: null }, newest: false };
  expect(whereOf(point)).toBe("checkpoint 1 of attempt 1");
});
