import { describe, expect, it } from "vitest";
import { constraintsText, deafTuner, readRecords, spaceText, tunerText } from "./texts";

describe("texts to begin with", () => {
  it("have one line for each parameter", () => {
    const space = {
      lr: { _type: "uniform", _value: [0, 1] },
      'a"b': { _type: "choice", _value: ["x", null] },
    };
    expect(spaceText(space)).toBe(
      '{\n  "lr": {"_type": "uniform", "_value": [0, 1]},\n  "a\\"b": {"_type": "choice", "_value": ["x", null]}\n}\n',
    );
    expect(JSON.parse(spaceText(space))).toEqual(space);
    expect(spaceText({})).toBe("{}\n");
  });

  it("have one line for each constraint", () => {
    expect(constraintsText(["a < b", "c"])).toBe('[\n  "a < b",\n  "c"\n]\n');
    expect(constraintsText([])).toBe("");
    expect(constraintsText(undefined)).toBe("");
  });

  it("show the tuner", () => {
    expect(JSON.parse(tunerText({ name: "TPE" }))).toEqual({ name: "TPE" });
  });
});

describe("results to import", () => {
  it("keep parameters and values only", () => {
    const written =
      '[{"parameter": {"x": 1}, "value": "0.5", "trialJobId": "a"}, {"parameter": {}, "value": {"default": 1}}]';
    expect(readRecords(written)).toEqual({
      records: [
        { parameter: { x: 1 }, value: "0.5" },
        { parameter: {}, value: { default: 1 } },
      ],
    });
  });

  it.each([
    ["", "Choose a file"],
    ["[", "not JSON"],
    ["{}", "must be a list"],
    ["[]", "no results"],
    ["[1]", "Result 1 is not an object"],
    ['[{"parameter": {}, "value": 1}, {"parameter": {}}]', "Result 2 has no “value”"],
    ['[{"parameter": [], "value": 1}]', "“parameter” of result 1 is not an object"],
  ])("refuse %s", (written, why) => {
    const read = readRecords(written);
    expect("fault" in read ? read.fault : "").toContain(why);
  });

  it("are of no use to some tuners", () => {
    expect(deafTuner({ name: "Random" })).toBe("Random");
    expect(deafTuner({ name: "TPE" })).toBeNull();
    expect(deafTuner({ className: "a.B" })).toBeNull();
  });
});
