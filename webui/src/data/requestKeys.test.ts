import { expect, test } from "vitest";
import { RequestKeys } from "./requestKeys";

test("a repeated request has the key that it had", () => {
  const keys = new RequestKeys();
  const first = keys.of({ x: 1 });
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  expect(keys.of({ x: 1 })).toBe(first);
});

test("another request has another key", () => {
  const keys = new RequestKeys();
  const first = keys.of({ x: 1 });
  const second = keys.of({ x: 2 });
  expect(second).not.toBe(first);
  keys.answered();
  expect(keys.of({ x: 2 })).not.toBe(second);
});
