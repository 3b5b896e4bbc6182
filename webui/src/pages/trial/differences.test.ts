import { expect, test } from "vitest";
import { differences } from "./differences";

test("differences tell what equals, what is by how much other, and what only one has", () => {
  const found = differences({ lr: 0.3, act: "relu", m: { a: [1] } }, { lr: 0.1, act: "relu", m: { b: 2 } });
  expect(
    found.map(({ name, equal, by }) => [name, equal, by === null ? null : Number(by.toFixed(6))]),
  ).toEqual([
    ["lr", false, 0.2],
    ["act", true, null],
    ["m/a", false, null],
    ["m/b", false, null],
  ]);
  expect(found[3]?.own).toBeUndefined();
});
