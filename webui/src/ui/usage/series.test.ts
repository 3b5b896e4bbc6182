import { expect, test } from "vitest";
import { highest, seriesOf } from "./series";

const MIB = 1024 * 1024;

test("samples become lines over time", () => {
  const first = { at: "2026-01-01T00:00:00Z", cpus: 0.5, memoryMb: 2, gpus: [] };
  const second = {
    at: "2026-01-01T00:00:10Z",
    cpus: 1.5,
    memoryMb: 3,
    gpus: [
      { index: 0, busyPercent: 40, memoryMb: 1 },
      { index: 1, busyPercent: null, memoryMb: 1 },
    ],
  };
  const at = Date.parse(first.at);
  const { cpus, memory, gpus } = seriesOf([first, second]);
  expect(cpus).toEqual([
    [at, 0.5],
    [at + 10_000, 1.5],
  ]);
  expect(memory).toEqual([
    [at, 2 * MIB],
    [at + 10_000, 3 * MIB],
  ]);
  expect([...gpus]).toEqual([[0, [[at + 10_000, 40]]]]);
  expect(highest(cpus)).toBe(1.5);
});

test("without samples there are no lines", () => {
  const { cpus, gpus } = seriesOf([]);
  expect(cpus).toEqual([]);
  expect(gpus.size).toBe(0);
});
