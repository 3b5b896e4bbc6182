import { expect, test } from "vitest";
import type { Host } from "@/data/hosts";
import { keeperName, keepersNotInUse } from "./keepers";

const keepers = [
  { id: "local", host: null },
  { id: "ann_gpu1_22", host: "gpu1" },
];

test("a machine that the experiment uses now is left out", () => {
  const host = { experiments: [{ experimentId: "abc", machine: "ann_gpu1_22" }] } as unknown as Host;
  expect(keepersNotInUse(keepers, [host], "abc").map(({ id }) => id)).toEqual(["local"]);
  expect(keepersNotInUse(keepers, [host], "other")).toEqual(keepers);
  expect(keepersNotInUse(keepers, [], "abc")).toEqual(keepers);
});

test("a keeper is called by its machine", () => {
  expect(keepers.map(keeperName)).toEqual(["The server's machine", "gpu1"]);
  expect(keeperName({ id: "nni-abc-0", host: null })).toBe("nni-abc-0");
});
