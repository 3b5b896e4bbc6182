import { expect, test } from "vitest";
import type { Column } from "@/data/trials";
import { completionsAt, filterColumns, filterName, filterValue, termOf, withTerm } from "./filterText";

const column = (name: string, categories: readonly unknown[] | null = null): Column => ({
  name,
  kind: categories === null ? "number" : "category",
  categories: categories === null ? null : [...categories],
  count: 1,
  min: 0,
  max: 1,
  integer: false,
  log: false,
});
const COLUMNS = filterColumns(
  [
    column("status", ["RUNNING", "FAILED"]),
    column("value"),
    column("parameters.lr"),
    column("parameters.loss"),
    column("metrics.loss"),
    column("parameters.act", ["relu", "1", "a,b"]),
  ],
  ["baseline", "7"],
);
const textsAt = (text: string) =>
  completionsAt(text, text.length, COLUMNS).options.map((option) => option.text);

test("names are plain where only one column has them", () => {
  const names = COLUMNS.map((one) => filterName(one, COLUMNS));
  expect(names).toEqual([
    "Trial id",
    "tags",
    "Status",
    "Default metric",
    "lr",
    "parameters.loss",
    "metrics.loss",
    "act",
  ]);
});

test("the tags of trials complete a term", () => {
  expect(textsAt("tags:")).toEqual(["baseline", '"7"']);
  expect(textsAt("tags:[baseline, b")).toEqual(["baseline"]);
});

test("values that could be read as something else stand in quotes", () => {
  expect(["relu", "1", "a,b", "null", " x", 2, true].map(filterValue)).toEqual([
    "relu",
    '"1"',
    '"a,b"',
    '"null"',
    '" x"',
    "2",
    "true",
  ]);
});

test("names are completed at the beginning of each term", () => {
  expect(textsAt("lr<1; sta")).toEqual(["Status:"]);
  expect(completionsAt("lr<1; sta", 9, COLUMNS).from).toBe(6);
});

test("a semicolon in quotes ends no term", () => {
  expect(textsAt('act:"x;sta')).toEqual(["Status:"]); // quotes that are not closed are none
  expect(textsAt('act:"x;"; sta')).toEqual(["Status:"]);
  expect(textsAt('act:";" sta')).toEqual([]);
});

test("values of categories are completed, in brackets too", () => {
  expect(textsAt("status:")).toEqual(["RUNNING", "FAILED"]);
  expect(textsAt("Status:[RUNNING, f")).toEqual(["FAILED"]);
  expect(textsAt("act:")).toEqual(["relu", '"1"', '"a,b"']);
  expect(textsAt("lr:")).toEqual([]);
});

test("terms are made of what was picked", () => {
  expect(termOf("act", "[,]", ['"relu"', '"1"'])).toBe('act:[relu, "1"]');
  expect(termOf("act", "[,]", [])).toBeNull();
  expect(termOf("lr", "[]", ["0.1", "1"])).toBe("lr:[0.1, 1]");
  expect(termOf("lr", "[]", ["0.1", ""])).toBeNull();
  expect(termOf("lr", ">=", ["0.1"])).toBe("lr>=0.1");
  expect(termOf("lr", "≠null", [])).toBe("lr≠null");
  expect(withTerm("a:1;", "b:2")).toBe("a:1; b:2");
});
