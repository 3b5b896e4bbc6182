import { describe, expect, test } from "vitest";
import type { Summary } from "@/data/experiments";
import { filterOf, select, sortedBy } from "./filters";

const summary = (part: Partial<Summary>): Summary => ({
  id: "x",
  name: "",
  status: "DONE",
  drain: null,
  reason: "",
  platform: "local",
  port: 8080,
  served: false,
  createdAt: "2026-01-01T00:00:00Z",
  endedAt: null,
  durationS: 0,
  counts: {},
  bestTrialId: null,
  bestValue: null,
  owner: "ann",
  tags: [],
  archived: false,
  maxTrialNumber: null,
  trialConcurrency: 1,
  optimizeMode: "maximize",
  objectives: {},
  ...part,
});

const ids = (all: Summary[], search: string) =>
  select(all, filterOf(new URLSearchParams(search))).map(({ id }) => id);

describe("select", () => {
  const all = [
    summary({ id: "a", name: "old", bestValue: 1, tags: ["t"] }),
    summary({ id: "b", name: "new", status: "RUNNING", createdAt: "2026-02-01T00:00:00Z" }),
    summary({ id: "c", name: "gone", archived: true, bestValue: 3 }),
  ];

  test("leaves archived ones out unless they are asked for", () => {
    expect(ids(all, "")).toEqual(["b", "a"]);
    expect(ids(all, "archived=only")).toEqual(["c"]);
    expect(ids(all, "archived=all&sort=name")).toEqual(["c", "b", "a"]);
  });

  test("finds every word in name, id or tags", () => {
    expect(ids(all, "search=OLD+t")).toEqual(["a"]);
    expect(ids(all, "search=old+new")).toEqual([]);
  });

  test("takes any of several values of a filter", () => {
    expect(ids(all, "status=DONE&status=RUNNING")).toEqual(["b", "a"]);
    expect(ids(all, "tag=t")).toEqual(["a"]);
    expect(ids(all, "owner=bob")).toEqual([]);
  });

  test("compares days, and leaves out what has not ended", () => {
    expect(ids(all, "since=2026-01-15")).toEqual(["b"]);
    expect(ids(all, "until=2026-12-31")).toEqual([]);
  });

  test("puts what has no value last, in both orders", () => {
    expect(ids(all, "archived=all&sort=best")).toEqual(["c", "a", "b"]);
    expect(ids(all, "archived=all&sort=best&order=asc")).toEqual(["a", "c", "b"]);
  });
});

describe("sortedBy", () => {
  test("turns the order round at the second click and back at the third", () => {
    const once = sortedBy(new URLSearchParams("status=DONE"), "name");
    expect(once.toString()).toBe("status=DONE&sort=name");
    const twice = sortedBy(once, "name");
    expect(twice.toString()).toBe("status=DONE&sort=name&order=desc");
    expect(sortedBy(twice, "name").toString()).toBe("status=DONE&sort=name");
  });
});
