/** The last lines of a log, as many as a tab can keep. */
import { PLAIN, spansOf, stripped, type Style } from "./ansi";

export const MOST_LINES = 50_000;
export const MOST_CHARACTERS = 16_000_000;
const LONGEST_LINE = 20_000;
const SLACK = 1.1; // dropping is done for many lines at once

const ERROR =
  /^Traceback \(most recent call last\)|^\s*(?:[\w.]+\.)?\w*(?:Error|Exception)\b(?::|$)|\b(?:ERROR|FATAL|CRITICAL)\b|Segmentation fault|\bout of memory\b|^Killed$|: command not found|[Pp]anicked at/;

export class LogLines {
  /** The number of the first line that is kept, counted from the first that was read. */
  first = 0;
  /** Characters of the longest line so far. */
  longest = 0;
  /** The first line that tells of an error. */
  errorAt: number | null = null;

  #lines: string[] = [];
  #open = ""; // the last line, which has no end yet
  #styles = new Map<number, Style>(); // the lines that begin with a style of the line before
  #style = PLAIN;
  #characters = 0;
  readonly #mostLines: number;
  readonly #mostCharacters: number;

  constructor(mostLines = MOST_LINES, mostCharacters = MOST_CHARACTERS) {
    this.#mostLines = mostLines;
    this.#mostCharacters = mostCharacters;
  }

  get count(): number {
    return this.#lines.length + (this.#open === "" ? 0 : 1);
  }

  /** The line at this place among those kept. */
  at(index: number): string {
    return this.#lines[index] ?? (index === this.#lines.length ? this.#open : "");
  }

  styleAt(index: number): Style {
    const number = this.first + index;
    return this.#styles.get(number) ?? (index === this.#lines.length ? this.#style : PLAIN);
  }

  append(text: string): void {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.#push(rewritten(this.#open + text.slice(from, end)));
      this.#open = "";
      from = end + 1;
    }
    this.#open = rewritten(this.#open + text.slice(from));
    this.longest = Math.max(this.longest, this.#open.length);
    this.#drop();
  }

  /** The places among those kept of the lines that have this text, in any case of letters. */
  hits(query: string): number[] {
    const wanted = query.toLowerCase();
    const found: number[] = [];
    for (let index = 0; wanted !== "" && index < this.count; index += 1)
      if (stripped(this.at(index)).toLowerCase().includes(wanted)) found.push(index);
    return found;
  }

  #push(line: string): void {
    const number = this.first + this.#lines.length;
    if (this.#style !== PLAIN) this.#styles.set(number, this.#style);
    if (line.includes("\x1b")) {
      const { ended } = spansOf(line, this.#style);
      this.#style = Object.entries(PLAIN).every(([name, value]) => ended[name as keyof Style] === value)
        ? PLAIN
        : ended;
    }
    if (this.errorAt === null && ERROR.test(stripped(line))) this.errorAt = number;
    this.longest = Math.max(this.longest, line.length);
    this.#characters += line.length;
    this.#lines.push(line);
  }

  #drop(): void {
    if (this.#lines.length <= this.#mostLines * SLACK && this.#characters <= this.#mostCharacters * SLACK)
      return;
    let dropped = 0;
    while (
      this.#lines.length - dropped > this.#mostLines ||
      (this.#characters > this.#mostCharacters && dropped < this.#lines.length)
    ) {
      this.#characters -= this.#lines[dropped]?.length ?? 0;
      this.#styles.delete(this.first + dropped);
      dropped += 1;
    }
    this.#lines.splice(0, dropped);
    this.first += dropped;
    if (this.errorAt !== null && this.errorAt < this.first) this.errorAt = this.#firstError();
  }

  #firstError(): number | null {
    const index = this.#lines.findIndex((line) => ERROR.test(stripped(line)));
    return index < 0 ? null : this.first + index;
  }
}

/** What a terminal shows in the end of a line in which progress was drawn over and over; not without bounds. */
function rewritten(line: string): string {
  let shown = line;
  if (line.includes("\r")) {
    const ended = line.endsWith("\r");
    const parts = line.split("\r").filter((part) => part !== "");
    shown = (parts.at(-1) ?? "") + (ended ? "\r" : "");
  }
  return shown.length > LONGEST_LINE ? shown.slice(0, LONGEST_LINE) + "…" : shown;
}
