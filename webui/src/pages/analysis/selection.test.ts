import { expect, test } from "vitest";
import { Columns, ColumnStore } from "@/data/columns";
import type { PackedColumn } from "@/data/packed";
import { brushesOf, rowsIn, textOf, type Brush } from "./selection";

const CATEGORIES: Record<string, unknown[]> = {
  "parameters.optimizer/_name": ["sgd", "adam", 'odd, "one"];'],
  "parameters.batch": [16, 32, true, "16"],
};
const categoriesOf = (name: string) => CATEGORIES[name];

test("a selection's text is read back", () => {
  const brushes = new Map<string, Brush>([
    ["value", { range: [0.9, 0.95] }],
    ["parameters.optimizer/_name", { values: ["sgd", 'odd, "one"];'] }],
    ["parameters.batch", { values: [16, true] }],
    ["metrics.a b:c", { range: [-1e-7, 3] }],
  ]);
  const text = textOf(brushes);
  expect(text).toContain("value:[0.9,0.95];");
  expect(brushesOf(text, categoriesOf)).toEqual(brushes);
});

test("what is no selection is left out", () => {
  expect(brushesOf("", categoriesOf).size).toBe(0);
  expect(brushesOf("value>3", categoriesOf).size).toBe(0);
  expect(brushesOf("value:[1]", categoriesOf).size).toBe(0);
});

test("rows lie in all brushes, both ends included", () => {
  const column = (name: string, values: PackedColumn["values"], categories?: unknown[]) =>
    [name, categories === undefined ? { name, values } : { name, values, categories }] as const;
  const columns = new Columns(
    1,
    new Date(0),
    new Uint32Array([0, 1, 2, 3]),
    new Map([
      column("value", new Float32Array([0.1, 0.2, NaN, 0.4])),
      column("parameters.batch", new Uint8Array([0, 0, 1, 255]), CATEGORIES["parameters.batch"]),
    ]),
    new ColumnStore(() => Promise.reject(new Error())),
  );
  const all = new Uint32Array([0, 1, 2, 3]);
  const rows = (...brushes: [string, Brush][]) => [...rowsIn(columns, all, new Map(brushes))];
  expect(rows()).toEqual([0, 1, 2, 3]);
  expect(rows(["value", { range: [0.1, 0.2] }])).toEqual([0, 1]);
  expect(rows(["sequence", { range: [1, 2] }])).toEqual([1, 2]);
  expect(rows(["parameters.batch", { values: [16] }])).toEqual([0, 1]);
  expect(rows(["parameters.batch", { values: [16] }], ["value", { range: [0.15, 1] }])).toEqual([1]);
});
