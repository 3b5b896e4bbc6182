import { expect, test } from "vitest";
import { strings } from "@/strings";
import { inUnits, readCount, readDuration, readPriority } from "./limits";

const text = strings.overview.edit;

test("counts are positive whole numbers", () => {
  expect(readCount("12", 10)).toEqual({ value: 12 });
  expect(readCount("1e2", null)).toEqual({ value: 100 });
  for (const typed of ["", " ", "0", "-1", "1.5", "x", "Infinity"])
    expect(readCount(typed, 10)).toEqual({ fault: text.noInteger });
});

test("what is unchanged is a fault", () => {
  expect(readCount("10", 10)).toEqual({ fault: text.unchanged });
  expect(readDuration("10", "min", 600, 5)).toEqual({ fault: text.unchanged });
});

test("durations do not lie before what has run", () => {
  expect(readDuration("1.5", "h", 600, 5)).toEqual({ value: 5400 });
  expect(readDuration("1", "min", 600, 60.5)).toEqual({ fault: text.tooShort("1 min 1 s") });
  expect(readDuration("0", "min", 600, 0)).toEqual({ fault: text.noNumber });
});

test("durations are written in their largest whole unit", () => {
  expect(inUnits(172_800)).toEqual({ typed: "2", unit: "d" });
  expect(inUnits(5400)).toEqual({ typed: "90", unit: "min" });
  expect(inUnits(90)).toEqual({ typed: "1.5", unit: "min" });
});

test("a priority is any other whole number", () => {
  expect(readPriority("-5", 0)).toEqual({ value: -5 });
  expect(readPriority("0", 0)).toEqual({ fault: text.unchanged });
  for (const typed of ["", "1.5", "high"]) expect(readPriority(typed, 0)).toEqual({ fault: text.noWhole });
});
