import { expect, test } from "vitest";
import { draftsOf, fieldsOf, read } from "./drafts";
import { readSpace } from "./space";

const SPACE = readSpace({
  lr: { _type: "loguniform", _value: [0.001, 0.1] },
  units: { _type: "randint", _value: [8, 64] },
  step: { _type: "quniform", _value: [0, 1, 0.25] },
  act: { _type: "choice", _value: ["relu", "tanh"] },
  layer: {
    _type: "choice",
    _value: [
      { _name: "dense", width: { _type: "uniform", _value: [1, 2] } },
      { _name: "conv", kernel: { _type: "choice", _value: [3, 5] } },
    ],
  },
});
const PARAMETERS = { lr: 0.01, units: 8, step: 0.5, act: "relu", layer: { _name: "conv", kernel: 5 } };

function readingOf(changes: Record<string, string>, parameters: Record<string, unknown> = PARAMETERS) {
  const drafts = { ...draftsOf(SPACE, parameters), ...changes };
  return read(fieldsOf(SPACE, parameters, drafts), drafts);
}

test("a parameter set goes through the form unchanged", () => {
  expect(readingOf({})).toEqual({ parameters: PARAMETERS, faults: {}, warnings: {} });
});

test("branches that share the name of a parameter do not take its value from each other", () => {
  const c = { _type: "uniform", _value: [0, 8] };
  const branches = ["svm", "linear", "forest"].map((name) => ({ _name: name, C: c }));
  const space = readSpace({ model: { _type: "choice", _value: branches } });
  for (const name of ["svm", "linear", "forest"]) {
    const parameters = { model: { _name: name, C: 0.5 } };
    const drafts = draftsOf(space, parameters);
    expect(read(fieldsOf(space, parameters, drafts), drafts).parameters).toEqual(parameters);
  }
});

test("another branch of a nested choice brings its own fields", () => {
  const reading = readingOf({ layer: '"dense"' });
  expect(reading.parameters.layer).toEqual({ _name: "dense", width: 1.5 });
  expect(reading.warnings).toEqual({});
});

test("values outside of the space are warned of, not refused", () => {
  const reading = readingOf({ lr: "1", units: "64", step: "0.3", act: '"gelu"' });
  expect(Object.keys(reading.warnings)).toEqual(["lr", "units", "step", "act"]);
  expect(reading.faults).toEqual({});
  expect(reading.parameters).toMatchObject({ lr: 1, units: 64, step: 0.3, act: "gelu" });
});

test("what is no value is a fault", () => {
  expect(Object.keys(readingOf({ lr: "", units: "many", act: "gelu" }).faults)).toEqual([
    "lr",
    "units",
    "act",
  ]);
});

test("a parameter that the space does not have is kept and warned of", () => {
  const reading = readingOf({}, { ...PARAMETERS, seed: 7 });
  expect(reading.parameters.seed).toBe(7);
  expect(Object.keys(reading.warnings)).toEqual(["seed"]);
});

test("an integer whose digits a browser cannot keep is pointed out", () => {
  const space = readSpace({ seed: { _type: "choice", _value: [2 ** 60, 7, 1e30] } });
  for (const [seed, warned] of [
    [2 ** 60, ["seed"]],
    [7, []],
    [1e30, []],
  ] as const) {
    const drafts = draftsOf(space, { seed });
    expect(Object.keys(read(fieldsOf(space, { seed }, drafts), drafts).warnings)).toEqual(warned);
  }
});
