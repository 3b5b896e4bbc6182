/** What Tab and Enter do to a text of lines. */

export interface Edit {
  /** The part of the text that is replaced. */
  from: number;
  to: number;
  text: string;
  /** What is selected then. */
  selection: readonly [number, number];
}

const STEP = "  ";

/** Tab: indents the selected lines, or goes on to the next step at the caret. */
export function indented(text: string, start: number, end: number): Edit {
  if (!text.slice(start, end).includes("\n")) {
    const column = start - lineStart(text, start);
    const pad = " ".repeat(STEP.length - (column % STEP.length));
    return { from: start, to: end, text: pad, selection: [start + pad.length, start + pad.length] };
  }
  return eachLine(text, start, end, (line) => (line === "" ? line : STEP + line));
}

/** Shift+Tab: takes a step off the lines. */
export function outdented(text: string, start: number, end: number): Edit {
  return eachLine(text, start, end, (line) => line.replace(/^( {1,2}|\t)/, ""));
}

/** Enter: the next line begins as this one does, and deeper after a colon or in an item of a list. */
export function newLine(text: string, start: number, end: number): Edit {
  const before = text.slice(lineStart(text, start), start);
  const indent = /^\s*/.exec(before)?.[0] ?? "";
  const deeper = /:\s*$/.test(before) ? STEP : "";
  const item = /^\s*- \S+.*[^:\s]\s*$/.test(before) && before.includes(": ") ? STEP : "";
  const added = `\n${indent}${item}${deeper}`;
  return { from: start, to: end, text: added, selection: [start + added.length, start + added.length] };
}

function eachLine(text: string, start: number, end: number, change: (line: string) => string): Edit {
  const from = lineStart(text, start);
  const last = end > start && text[end - 1] === "\n" ? end - 1 : end; // a line touched by its end only stays
  const stop = text.indexOf("\n", last);
  const to = stop === -1 ? text.length : stop;
  const lines = text.slice(from, to).split("\n");
  const changed = lines.map(change);
  const joined = changed.join("\n");
  const first = (changed[0]?.length ?? 0) - (lines[0]?.length ?? 0);
  const grown = joined.length - (to - from);
  return {
    from,
    to,
    text: joined,
    selection: [Math.max(from, start + first), Math.max(from, end + grown)],
  };
}

function lineStart(text: string, at: number): number {
  return text.lastIndexOf("\n", at - 1) + 1;
}
