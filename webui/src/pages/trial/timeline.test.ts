import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { stretches } from "./timeline";

const at = (second: number) => new Date(second * 1000).toISOString();

const JOB: Schemas["Job"] = {
  id: "e-t-1",
  attempt: 1,
  keeperId: "local",
  gpus: [],
  placeReason: null,
  placedAt: null,
  startedAt: null,
  pid: null,
  endedAt: null,
  endReason: null,
  exitCode: null,
  signal: null,
  frames: 0,
  message: null,
  cause: null,
  logPath: "",
  members: [],
};

const TRIAL: Schemas["TrialDetail"] = {
  id: "t",
  sequence: 0,
  status: "RUNNING",
  detail: null,
  source: "algorithm",
  parameterId: 0,
  parameters: {},
  retryOf: null,
  attempt: 2,
  createdAt: at(0),
  startedAt: null,
  endedAt: null,
  reason: null,
  note: null,
  userNote: "",
  tags: [],
  noResult: null,
  cause: null,
  finalValue: null,
  finalText: null,
  latestValue: null,
  latestText: null,
  intermediates: 0,
  logPath: "",
  sets: null,
  jobs: [],
  checkpoints: [],
  firstParameters: {},
  legs: [],
  retriedAs: null,
};

test("a trial's time is told without gaps", () => {
  const jobs = [
    { ...JOB, placedAt: at(2), startedAt: at(3), endedAt: at(7) },
    { ...JOB, attempt: 2, placedAt: at(9), startedAt: at(10) },
  ];
  const found = stretches({ ...TRIAL, jobs }, 20_000);
  expect(found.map(({ kind, attempt, from, to }) => [kind, attempt, from / 1000, to / 1000])).toEqual([
    ["waited", 1, 0, 2],
    ["starting", 1, 2, 3],
    ["running", 1, 3, 7],
    ["between", 2, 7, 9],
    ["starting", 2, 9, 10],
    ["running", 2, 10, 20],
  ]);
});

test("a trial without an attempt waits", () => {
  expect(stretches(TRIAL, 5000)).toEqual([{ kind: "waited", attempt: 2, from: 0, to: 5000 }]);
});
