import { describe, expect, it } from "vitest";
import { asOptions, asPython, flat } from "./snippets";
import { toYaml } from "./yaml";

const SET = { lr: 1e-7, name: "it's", model: { _name: "svm", layers: [1, 2] }, on: true, none: null };

describe("toYaml", () => {
  it("writes mappings in blocks and plain lists in a line", () => {
    expect(toYaml(SET)).toBe(
      'lr: 1e-7\nname: "it\'s"\nmodel:\n  _name: svm\n  layers: [1, 2]\n"on": true\nnone: null\n',
    );
  });

  it("writes lists of mappings with dashes", () => {
    expect(toYaml({ x: [{ a: 1, b: [{ c: 2 }] }] })).toBe("x:\n  - a: 1\n    b:\n      - c: 2\n");
  });

  it("quotes what would mean something else", () => {
    expect(toYaml(["yes", "1.0", "a: b", ".5", "", "#x"])).toBe('["yes", "1.0", "a: b", ".5", "", "#x"]\n');
    expect(toYaml({})).toBe("{}\n");
  });
});

describe("asPython", () => {
  it("writes literals", () => {
    expect(asPython({ a: true, b: null, c: [1, "x"] })).toBe('{"a": True, "b": None, "c": [1, "x"]}');
  });

  it("breaks long ones", () => {
    expect(asPython({ first: "x".repeat(50), second: "y".repeat(50) })).toBe(
      `{\n    "first": "${"x".repeat(50)}",\n    "second": "${"y".repeat(50)}",\n}`,
    );
  });
});

describe("asOptions", () => {
  it("quotes for a shell", () => {
    expect(asOptions(SET)).toBe(
      "--lr 1e-7 --name 'it'\\''s' --model._name svm --model.layers '[1,2]' --on true --none null",
    );
  });

  it("flattens by dots", () => {
    expect(flat({ a: { b: { c: 1 } } })).toEqual([["a.b.c", "1"]]);
  });
});
