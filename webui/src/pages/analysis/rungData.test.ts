import { expect, test } from "vitest";
import { pack } from "@/data/packed.testing";
import { acrossOf, beatenBy, chainOf, lookOf, nameOf, rungsOf, type Rungs } from "./rungData";

const NONE = 4_294_967_295;
const FATES = ["promoted", "stopped", "running", "left"];

/** Three configurations; trials 0 and 2 were promoted (as 4 and 3), and 2 twice. */
function halving(header: object = {}): Rungs {
  const counts = { promoted: 0, stopped: 0, running: 0, left: 0, reached: 0 };
  return rungsOf(
    pack(
      {
        by: "budget",
        minimise: false,
        total: 3,
        lines: 3,
        rungs: [
          { from: 1, to: 1, cut: { sequence: 0, value: 0.5 }, ...counts },
          { from: 3, to: 3, cut: { sequence: 3, value: 0.7 }, ...counts },
          { from: 9, to: 9, cut: null, ...counts },
        ],
        verdicts: [{ sequence: 4, reason: "It was the worst.", better: [3, 77] }],
        ...header,
      },
      [
        { name: "rung", type: "u8", values: [0, 0, 0, 1, 1, 2] },
        { name: "sequence", type: "u32", values: [0, 1, 2, 3, 4, 5] },
        { name: "value", type: "f32", values: [0.5, 0.25, 0.75, 0.7, 0.6, 0.8] },
        { name: "fate", type: "u8", values: [0, 3, 0, 0, 1, 3], categories: FATES },
        { name: "next", type: "u32", values: [4, NONE, 3, 5, NONE, NONE] },
      ],
    ),
  );
}

test("a configuration is followed through its rungs, from wherever", () => {
  const rungs = halving();
  for (const point of [2, 3, 5]) expect(chainOf(rungs, point)).toEqual([2, 3, 5]);
  expect(chainOf(rungs, 1)).toEqual([1]);
});

test("who was stopped is led to those that beat it, as far as they are drawn", () => {
  expect(beatenBy(halving(), 4)).toEqual([3]);
});

test("who was not promoted is led to the worst that was, if that was better", () => {
  expect(beatenBy(halving(), 1)).toEqual([0]);
  expect(beatenBy(halving({ minimise: true }), 1)).toEqual([]);
  expect(beatenBy(halving(), 5)).toEqual([]);
});

test("at the highest budget nobody is left behind", () => {
  const rungs = halving();
  expect([0, 1, 4, 5].map((point) => lookOf(rungs, point))).toEqual([
    "promoted",
    "left",
    "stopped",
    "completed",
  ]);
  expect(lookOf(halving({ by: "step" }), 5)).toBe("left");
});

test("points stand in the column of their rung, the older ones left", () => {
  const across = [...acrossOf(halving())];
  expect(across.map((place) => Math.floor(place + 0.5))).toEqual([0, 0, 0, 1, 1, 2]);
  expect(across[0]).toBeLessThan(across[1] ?? NaN);
  expect(across[5]).toBe(2);
});

test("a rung of many steps says from where to where", () => {
  expect(nameOf({ from: 9, to: 9 })).toBe("9");
  expect(nameOf({ from: 4, to: 9 })).toBe("4–9");
});
