import { expect, test } from "vitest";
import { contentOf, summaryOf, writtenView } from "./savedViews";

const PLAIN = { filter: "", search: "", statuses: [], sort: "sequence", descending: false } as const;

test("what the page shows is saved, and written into the address again", () => {
  const question = {
    filter: "lr<0.1",
    search: "abc",
    statuses: ["FAILED", "UNKNOWN"],
    withoutResult: true,
    sort: "value",
    descending: true,
  } as const;
  const content = contentOf({ question, columns: ["sequence", "parameters.a,b"] });
  expect(writtenView("e", content)).toEqual({
    filter: "lr<0.1",
    search: "abc",
    status: "FAILED,UNKNOWN",
    result: "none",
    sort: "-value",
    columns: '"sequence","parameters.a,b"',
  });
  expect(summaryOf(content)).toBe('FAILED; UNKNOWN; No result; lr<0.1; "abc", by value, largest first');
});

test("a view of everything clears the address", () => {
  const content = contentOf({ question: PLAIN, columns: [] });
  expect(Object.values(writtenView("e", content)).filter(Boolean)).toEqual([]);
  expect(summaryOf(content)).toBe("all trials");
});
