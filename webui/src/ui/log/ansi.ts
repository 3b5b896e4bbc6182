/** What terminals understand by escape sequences, as far as logs need it: colours and type. */

export interface Style {
  readonly foreground: number | null; // 0 to 15
  readonly background: number | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly inverse: boolean;
}

export interface Span {
  readonly text: string;
  /** Class names; empty: as the text around it. */
  readonly look: string;
}

export const PLAIN: Style = {
  foreground: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
};

/* Control sequences, strings of the operating system's (links, titles), and the short sequences. */
// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>78cM])/g;

/** The text without its sequences. */
export function stripped(line: string): string {
  return line.includes("\x1b") ? line.replace(SEQUENCE, "") : line;
}

/** The line in spans, begun with the style in which the line before ended, and the style in which it ends. */
export function spansOf(line: string, begun: Style = PLAIN): { spans: Span[]; ended: Style } {
  const spans: Span[] = [];
  let style = begun;
  let from = 0;
  const add = (text: string) => {
    if (text === "") return;
    const look = lookOf(style);
    const last = spans.at(-1);
    if (last?.look === look) spans[spans.length - 1] = { text: last.text + text, look };
    else spans.push({ text, look });
  };
  if (line.includes("\x1b")) {
    for (const found of line.matchAll(SEQUENCE)) {
      add(line.slice(from, found.index));
      from = found.index + found[0].length;
      if (found[2] === "m") style = restyled(style, found[1] ?? "");
    }
  }
  add(line.slice(from));
  return { spans, ended: style };
}

export function lookOf(style: Style): string {
  const looks: string[] = [];
  if (style.foreground !== null) looks.push(`ansi-fg-${style.foreground}`);
  if (style.background !== null) looks.push(`ansi-bg-${style.background}`);
  for (const name of ["bold", "dim", "italic", "underline", "inverse"] as const)
    if (style[name]) looks.push(`ansi-${name}`);
  return looks.join(" ");
}

function restyled(style: Style, text: string): Style {
  const codes = text.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(at + 1));
      next = { ...next, [code === 38 ? "foreground" : "background"]: colour };
      at += used;
    } else {
      next = { ...next, ...changeOf(code) };
    }
  }
  return next;
}

function changeOf(code: number): Partial<Style> {
  if (code >= 30 && code <= 37) return { foreground: code - 30 };
  if (code >= 40 && code <= 47) return { background: code - 40 };
  if (code >= 90 && code <= 97) return { foreground: code - 82 };
  if (code >= 100 && code <= 107) return { background: code - 92 };
  switch (code) {
    case 0:
      return PLAIN;
    case 1:
      return { bold: true };
    case 2:
      return { dim: true };
    case 3:
      return { italic: true };
    case 4:
      return { underline: true };
    case 7:
      return { inverse: true };
    case 22:
      return { bold: false, dim: false };
    case 23:
      return { italic: false };
    case 24:
      return { underline: false };
    case 27:
      return { inverse: false };
    case 39:
      return { foreground: null };
    case 49:
      return { background: null };
    default:
      return {};
  }
}

/** The colour after 38 or 48, and how many codes say it. The 16 colours of the theme stand for all. */
function extended(codes: readonly number[]): [number | null, number] {
  const [kind, first = 0, green = 0, blue = 0] = codes;
  if (kind === 5) return [indexed(first), 2];
  if (kind === 2) return [nearest(first, green, blue), 4];
  return [null, 1];
}

function indexed(index: number): number {
  if (index < 16) return index;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return nearest(grey, grey, grey);
  }
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 40) return most < 60 ? 0 : most < 150 ? 8 : most < 220 ? 7 : 15;
  const half = (most + least) / 2;
  const colour = (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0);
  return most > 190 ? colour + 8 : colour;
}
