import { describe, expect, test } from "vitest";
import { actOf, isTypedInto } from "./keys";

const plain = { prefixed: false, path: "/" };

describe("actOf", () => {
  test("knows the single keys", () => {
    expect(actOf("?", plain)).toEqual({ kind: "help" });
    expect(actOf("/", plain)).toEqual({ kind: "search" });
    expect(actOf("g", plain)).toEqual({ kind: "prefix" });
    expect(actOf("e", plain)).toBeNull();
  });

  test("goes to pages of the server from anywhere", () => {
    expect(actOf("e", { prefixed: true, path: "/experiments/abc/trials" })).toEqual({ kind: "go", to: "/" });
    expect(actOf("r", { prefixed: true, path: "/" })).toEqual({ kind: "go", to: "/resources" });
  });

  test("goes to pages of the experiment that is shown, and nowhere without one", () => {
    const path = "/experiments/abc/trials/xyz";
    expect(actOf("o", { prefixed: true, path })).toEqual({ kind: "go", to: "/experiments/abc" });
    expect(actOf("a", { prefixed: true, path })).toEqual({ kind: "go", to: "/experiments/abc/analysis" });
    expect(actOf("t", { prefixed: true, path: "/resources" })).toBeNull();
  });

  test("takes no key for a second g that is not one", () => {
    expect(actOf("?", { prefixed: true, path: "/" })).toBeNull();
  });
});

test("typing is left alone", () => {
  document.body.innerHTML = `<input type="search"><input type="checkbox"><textarea></textarea><button>x</button>`;
  const typed = [...document.body.children].map((element) => isTypedInto(element));
  expect(typed).toEqual([true, false, true, false]);
});
