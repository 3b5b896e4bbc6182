import { describe, expect, it } from "vitest";
import { PLAIN, spansOf, stripped } from "./ansi";
import { marked } from "./LogLine";
import { LogLines } from "./lines";

describe("spansOf", () => {
  it("gives colours and type, and the style in which the line ends", () => {
    const { spans, ended } = spansOf("a\x1b[1;31mb\x1b[22mc\x1b[92md");
    expect(spans).toEqual([
      { text: "a", look: "" },
      { text: "b", look: "ansi-fg-1 ansi-bold" },
      { text: "c", look: "ansi-fg-1" },
      { text: "d", look: "ansi-fg-10" },
    ]);
    expect(spansOf("e\x1b[mf", ended).spans).toEqual([
      { text: "e", look: "ansi-fg-10" },
      { text: "f", look: "" },
    ]);
  });

  it("takes the nearest of the 16 colours for others", () => {
    expect(spansOf("\x1b[38;5;196mx").spans[0]?.look).toBe("ansi-fg-9");
    expect(spansOf("\x1b[48;2;10;90;10;4mx").spans[0]?.look).toBe("ansi-bg-2 ansi-underline");
    expect(spansOf("\x1b[38;5;240mx").spans[0]?.look).toBe("ansi-fg-8");
  });

  it("leaves out what moves the cursor, titles and links", () => {
    const line = "\x1b[2K\x1b]0;title\x07a\x1b]8;;https://x\x1b\\b\x1b]8;;\x1b\\";
    expect(spansOf(line).spans).toEqual([{ text: "ab", look: "" }]);
    expect(stripped(line)).toBe("ab");
  });

  it("never takes text for markup", () => {
    expect(spansOf("<img src=x onerror=alert(1)>").spans).toEqual([
      { text: "<img src=x onerror=alert(1)>", look: "" },
    ]);
  });
});

describe("LogLines", () => {
  it("joins what comes in pieces", () => {
    const lines = new LogLines();
    lines.append("on");
    lines.append("e\ntwo\nth");
    expect([lines.count, lines.at(0), lines.at(1), lines.at(2)]).toEqual([3, "one", "two", "th"]);
  });

  it("shows the last of a progress that is drawn over and over", () => {
    const lines = new LogLines();
    lines.append("10%\r20%\r");
    expect(lines.at(0).trimEnd()).toBe("20%");
    lines.append("30%\nwindows\r\n");
    expect(lines.at(0)).toBe("30%");
    expect(lines.at(1).trimEnd()).toBe("windows");
  });

  it("keeps the last lines only, and their numbers", () => {
    const lines = new LogLines(10);
    for (let number = 0; number < 35; number += 1) lines.append(`line ${number}\n`);
    expect(lines.first + lines.count).toBe(35);
    expect(lines.count).toBeLessThanOrEqual(11);
    expect(lines.at(0)).toBe(`line ${lines.first}`);
  });

  it("keeps so many characters only", () => {
    const lines = new LogLines(1000, 100);
    for (let number = 0; number < 50; number += 1) lines.append("0123456789\n");
    expect(lines.count).toBeLessThanOrEqual(11);
  });

  it("carries a style over lines", () => {
    const lines = new LogLines();
    lines.append("\x1b[31mred\nstill\x1b[0m\nplain\n");
    expect(lines.styleAt(1).foreground).toBe(1);
    expect(lines.styleAt(2)).toBe(PLAIN);
  });

  it("finds the first error and the lines that have a text", () => {
    const lines = new LogLines();
    lines.append("epoch 1, error rate 0.3\n\x1b[1mTraceback (most recent call last):\n  x\nValueError: no\n");
    expect(lines.errorAt).toBe(1);
    expect(lines.hits("ERROR")).toEqual([0, 3]);
    expect(lines.hits("traceback")).toEqual([1]);
    expect(lines.hits("")).toEqual([]);
  });
});

describe("marked", () => {
  it("cuts spans where hits begin and end", () => {
    const spans = [
      { text: "foo b", look: "" },
      { text: "ar Bar", look: "ansi-bold" },
    ];
    expect(marked(spans, "bar").map(({ text, hit }) => [text, hit])).toEqual([
      ["foo ", false],
      ["b", true],
      ["ar", true],
      [" ", false],
      ["Bar", true],
    ]);
  });
});
