/**
 * Help with writing a filter: what may come next, and terms from what was picked.
 *
 * The server alone reads filters. This knows only where a term ends, which column it begins with, and how
 * names and values are written.
 */
import type { Column } from "@/data/trials";

export interface Completion {
  text: string;
  hint: string;
}

export interface Completions {
  /** What of the text a completion replaces. */
  from: number;
  to: number;
  options: readonly Completion[];
}

export const OPERATORS = [":", "≠", ">", "<", ">=", "<="] as const;
const MOST = 12;

/** NNI's names of columns, as its page shows them. */
const NAMES: Readonly<Record<string, string>> = {
  id: "Trial id",
  sequence: "Trial No.",
  status: "Status",
  value: "Default metric",
};

/** What is in no column of the schema. */
const besides = (name: string, categories: string[] | null): Column => ({
  name,
  kind: "category",
  categories,
  count: 0,
  min: null,
  max: null,
  integer: false,
  log: false,
});

/** All that a filter can name. `tags`: those that trials have. */
export function filterColumns(schema: readonly Column[], tags: readonly string[]): readonly Column[] {
  return [besides("id", null), besides("tags", [...tags]), ...schema];
}

/** As it stands in a filter: plain where that is unambiguous. */
export function filterName(column: Column, columns: readonly Column[]): string {
  const { name } = column;
  const plain = name.slice(name.indexOf(".") + 1);
  if (plain === name) return NAMES[name] ?? name;
  const others = columns.filter(
    (other) => other.name !== name && other.name.slice(other.name.indexOf(".") + 1) === plain,
  );
  return quotedName(others.length === 0 && NAMES[plain] === undefined ? plain : name);
}

function quotedName(name: string): string {
  return /[:><≠;="]|!=/.test(name) ? JSON.stringify(name) : name;
}

/** A value as a filter takes it: texts that could be read as something else stand in quotes. */
export function filterValue(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  const plain = /^[^";,[\]\s](?:[^";,[\]]*[^";,[\]\s])?$/.test(value);
  return plain && Number.isNaN(Number(value)) && !/^(null|true|false)$/.test(value)
    ? value
    : JSON.stringify(value);
}

/** The filter with one more term. */
export function withTerm(filter: string, term: string): string {
  const before = filter.trim().replace(/;\s*$/, "");
  return before === "" ? term : `${before}; ${term}`;
}

/** What may stand where the caret is. */
export function completionsAt(text: string, caret: number, columns: readonly Column[]): Completions {
  const start = termStart(text, caret);
  const typed = text.slice(start, caret);
  const blank = typed.length - typed.trimStart().length;
  const term = /^\s*("(?:[^"\\]|\\.)*"|[^:><≠;="!]+?)\s*(>=|<=|!=|[:><≠])/.exec(typed);
  if (term === null) return names(text, start + blank, caret, columns);
  const [whole, name = "", operator = ""] = term;
  const column = columnOf(name, columns);
  if (column?.categories == null || !(operator === ":" || operator === "≠" || operator === "!="))
    return { from: caret, to: caret, options: [] };
  return values(text, start + whole.length, caret, column.categories);
}

function names(text: string, from: number, caret: number, columns: readonly Column[]): Completions {
  const typed = text.slice(from, caret).trimStart().replace(/^"/, "").toLowerCase();
  const found = columns
    .map((column) => ({ column, text: filterName(column, columns) }))
    .filter((option) => option.text.toLowerCase().includes(typed) || option.column.name.includes(typed))
    .sort((a, b) => rank(a.text, typed) - rank(b.text, typed));
  const options = found.slice(0, MOST).map((option) => ({
    text: `${option.text}${option.column.categories === null ? "" : ":"}`,
    hint: hintOf(option.column),
  }));
  return { from, to: caret, options };
}

const rank = (name: string, typed: string) => (name.toLowerCase().startsWith(typed) ? 0 : 1);

function hintOf(column: Column): string {
  if (column.categories !== null) return `${column.categories.length} values`;
  if (column.min === null || column.max === null) return "";
  return `${short(column.min)} … ${short(column.max)}`;
}

const short = (value: number) => String(Number(value.toPrecision(4)));

function values(text: string, after: number, caret: number, categories: readonly unknown[]): Completions {
  const written = text.slice(after, caret);
  const last = Math.max(written.lastIndexOf("["), written.lastIndexOf(","));
  const begin = last + 1;
  const blank = written.slice(begin).length - written.slice(begin).trimStart().length;
  const typed = written.slice(begin).trim().replace(/^"/, "").toLowerCase();
  const options = categories
    .map((value) => filterValue(value))
    .filter((value) => value.toLowerCase().replace(/^"/, "").startsWith(typed))
    .slice(0, MOST)
    .map((value) => ({ text: value, hint: "" }));
  return { from: after + begin + blank, to: caret, options };
}

function columnOf(name: string, columns: readonly Column[]): Column | undefined {
  const plain = name.startsWith('"') ? name.slice(1, -1) : name.trim();
  const lower = plain.toLowerCase();
  return columns.find(
    (column) =>
      column.name === plain ||
      column.name.toLowerCase() === lower ||
      NAMES[column.name]?.toLowerCase() === lower ||
      column.name.slice(column.name.indexOf(".") + 1) === plain,
  );
}

/** Where the term begins that the caret is in: behind the last `;` that stands in no quotes. */
function termStart(text: string, caret: number): number {
  let start = 0;
  for (const match of text.slice(0, caret).matchAll(/"(?:[^"\\]|\\.)*"|;/g))
    if (match[0] === ";") start = match.index + 1;
  return start;
}

export type Operator = ":" | "≠" | "[]" | "[,]" | ">" | "<" | ">=" | "<=" | "null" | "≠null";

/** A term of a filter, or null while values are missing. `values`: JSON texts, or what was typed. */
export function termOf(name: string, operator: Operator, values: readonly string[]): string | null {
  if (operator === "null") return `${name}:null`;
  if (operator === "≠null") return `${name}≠null`;
  const written = values.map((value) => filterValue(parsed(value.trim())));
  if (values.length === 0 || values.some((value) => value.trim() === "")) return null;
  if (operator === "[]") return written.length === 2 ? `${name}:[${written.join(", ")}]` : null;
  if (operator !== "[,]") return `${name}${operator}${written[0] ?? ""}`;
  return written.length === 1 ? `${name}:${written[0] ?? ""}` : `${name}:[${written.join(", ")}]`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
