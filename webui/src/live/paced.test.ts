import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { paced } from "./paced";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("acts at once, then once for all calls of a pause", () => {
  const act = vi.fn();
  const call = paced(act, 1000);
  call();
  expect(act).toHaveBeenCalledTimes(1);
  call();
  call();
  expect(act).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1000);
  expect(act).toHaveBeenCalledTimes(2);
});

test("rests when nothing was wanted, and acts at once after that", () => {
  const act = vi.fn();
  const call = paced(act, 1000);
  call();
  vi.advanceTimersByTime(5000);
  expect(act).toHaveBeenCalledTimes(1);
  call();
  expect(act).toHaveBeenCalledTimes(2);
});
