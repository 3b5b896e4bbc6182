import { expect, test } from "vitest";
import type { Trial } from "@/data/trials";
import { hoverText } from "./hover";

const trial = (more: Partial<Trial>): Trial =>
  ({
    sequence: 7,
    status: "SUCCEEDED",
    parameters: { lr: 0.0123456789, net: { size: 3 } },
    finalText: "0.5",
    finalValue: 0.5,
    latestText: "0.25",
    latestValue: 0.25,
    ...more,
  }) as Trial;

test("says number, status, result and parameters", () => {
  expect(hoverText(trial({}))).toBe("Trial No. 7, SUCCEEDED\nResult: 0.5\nlr = 0.0123457\nnet/size = 3");
});

test("says the latest result while there is no final one, and none before the first", () => {
  expect(hoverText(trial({ status: "RUNNING", finalText: null, parameters: null }))).toBe(
    "Trial No. 7, RUNNING\nLatest: 0.25",
  );
  expect(hoverText(trial({ status: "WAITING", finalText: null, latestText: null, parameters: null }))).toBe(
    "Trial No. 7, WAITING",
  );
});

test("says no more than ten parameters, and no long value whole", () => {
  const parameters = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`p${at}`, "x".repeat(100)]));
  const lines = hoverText(trial({ parameters })).split("\n");
  expect(lines).toHaveLength(13);
  expect(lines[2]).toBe(`p0 = ${"x".repeat(80)}…`);
  expect(lines.at(-1)).toBe("and 2 more parameters");
});
