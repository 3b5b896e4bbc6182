import { expect, test } from "vitest";
import { asCommandLine, asPython, asYaml } from "./spelled";

const PARAMETERS = {
  lr: 0.1,
  on: true,
  act: "yes",
  layer: { _name: "conv", sizes: [3, null] },
  note: "it's",
};

test("as Python", () => {
  expect(asPython(PARAMETERS)).toBe(
    '{\n    "lr": 0.1,\n    "on": True,\n    "act": "yes",\n    "layer": {\n        "_name": "conv",\n' +
      '        "sizes": [3, None],\n    },\n    "note": "it\'s",\n}',
  );
});

test("as words of a command line", () => {
  expect(asCommandLine(PARAMETERS)).toBe(
    "--lr 0.1 --on true --act yes --layer._name conv --layer.sizes '[3,null]' --note 'it'\\''s'",
  );
});

test("as YAML", () => {
  expect(asYaml(PARAMETERS)).toBe(
    'lr: 0.1\n"on": true\nact: "yes"\nlayer:\n  _name: conv\n  sizes: [3, null]\nnote: "it\'s"\n',
  );
});

test("lists of mappings in blocks", () => {
  expect(asYaml({ x: [{ a: 1, b: [{ c: 2 }] }], z: {} })).toBe("x:\n  - a: 1\n    b:\n      - c: 2\nz: {}\n");
});
