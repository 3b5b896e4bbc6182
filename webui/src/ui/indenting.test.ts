import { describe, expect, test } from "vitest";
import { indented, newLine, outdented, type Edit } from "./indenting";

const after = (text: string, edit: Edit) => text.slice(0, edit.from) + edit.text + text.slice(edit.to);

describe("Tab", () => {
  test("goes to the next step at the caret", () => {
    expect(indented("abc", 3, 3)).toEqual({ from: 3, to: 3, text: " ", selection: [4, 4] });
    expect(after("a: b", indented("a: b", 0, 0))).toBe("  a: b");
  });

  test("indents every selected line but empty ones", () => {
    const text = "a:\n\nb: 1\nc";
    const edit = indented(text, 1, 8);
    expect(after(text, edit)).toBe("  a:\n\n  b: 1\nc");
    expect(edit.selection).toEqual([3, 12]);
  });

  test("leaves the line alone before which the selection ends", () => {
    expect(after("a\nb\nc", indented("a\nb\nc", 0, 4))).toBe("  a\n  b\nc");
  });
});

test("Shift+Tab takes a step off, as far as there is one", () => {
  const text = "    a\n b\nc";
  expect(after(text, outdented(text, 0, text.length))).toBe("  a\nb\nc");
});

describe("Enter", () => {
  test("keeps the indentation, and goes deeper after a colon", () => {
    expect(newLine("  a: 1", 6, 6).text).toBe("\n  ");
    expect(newLine("  a:", 4, 4).text).toBe("\n    ");
  });

  test("stays in the item of a list", () => {
    expect(newLine("  - host: h", 11, 11).text).toBe("\n    ");
    expect(newLine("  - 16", 6, 6).text).toBe("\n  ");
  });
});
