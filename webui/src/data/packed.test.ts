import { expect, test } from "vitest";
import { categoryText, missingCode, numbersOf, unpack } from "./packed";
import { pack } from "./packed.testing";

test("reads the header and each type of column", () => {
  const packed = unpack<{ revision: number }>(
    pack({ revision: 7 }, [
      { name: "sequence", type: "u32", values: [0, 1, 70_000] },
      { name: "value", type: "f32", values: [0.5, NaN, -1] },
      { name: "exact", type: "f64", values: [1e300, 2, 3] },
      { name: "status", type: "u8", values: [0, 255, 1], categories: ["RUNNING", "FAILED"] },
    ]),
  );
  expect(packed.header).toEqual({ revision: 7 });
  expect([...(packed.columns.get("sequence")?.values ?? [])]).toEqual([0, 1, 70_000]);
  expect(packed.columns.get("value")?.values[1]).toBeNaN();
  expect(packed.columns.get("exact")?.values[0]).toBe(1e300);
  expect(packed.columns.get("status")?.categories).toEqual(["RUNNING", "FAILED"]);
});

test("a column without rows, and none at all", () => {
  expect(unpack(pack({}, [])).columns.size).toBe(0);
  expect(unpack(pack({}, [{ name: "x", type: "f64", values: [] }])).columns.get("x")?.values.length).toBe(0);
});

test("what is cut off is refused", () => {
  const whole = pack({}, [{ name: "x", type: "f32", values: [1, 2, 3] }]);
  expect(() => unpack(whole.slice(0, whole.byteLength - 8))).toThrow("cut off");
  expect(() => unpack(whole.slice(0, 10))).toThrow("cut off");
  expect(() => unpack(new ArrayBuffer(2))).toThrow("cut off");
});

test("coded columns as numbers have NaN where a value is missing", () => {
  const column = { name: "c", values: new Uint8Array([1, 255, 0]), categories: ["a", "b"] };
  expect([...numbersOf(column)]).toEqual([1, NaN, 0]);
  expect(missingCode(new Uint16Array(0))).toBe(65_535);
});

test("categories as texts", () => {
  expect([1, true, null, "a b", [2]].map(categoryText)).toEqual(["1", "true", "null", "a b", "[2]"]);
});
