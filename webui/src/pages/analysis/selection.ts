/**
 * The selection that all charts of the analysis share: ranges and sets, by column, all of which a trial has to
 * lie in. Its text is a filter as the server understands it, so that it can stand in an address, lead to the table of
 * trials, and be asked about.
 */
import type { Columns } from "@/data/columns";
import { numbersOf } from "@/data/packed";

export type Brush = { range: readonly [number, number] } | { values: readonly unknown[] };
export type Brushes = ReadonlyMap<string, Brush>;

export const NO_BRUSHES: Brushes = new Map();

/** `name:[a,b]` of each, joined by `;`. */
export function textOf(brushes: Brushes): string {
  return [...brushes]
    .map(([name, brush]) => {
      const values = "range" in brush ? brush.range : brush.values;
      return `${nameText(name)}:[${values.map(valueText).join(",")}]`;
    })
    .join(";");
}

const nameText = (name: string) => (/^[\w./-]+$/.test(name) ? name : JSON.stringify(name));
const valueText = (value: unknown) =>
  typeof value === "number"
    ? String(Number(value.toPrecision(9)))
    : JSON.stringify(typeof value === "string" ? value : JSON.stringify(value));

/** What `textOf` wrote; what is of another form is left out. `coded` says which columns have categories. */
export function brushesOf(
  text: string,
  categoriesOf: (name: string) => readonly unknown[] | undefined,
): Brushes {
  const brushes = new Map<string, Brush>();
  const term = /\s*("(?:[^"\\]|\\.)*"|[^":;]+):\[((?:"(?:[^"\\]|\\.)*"|[^"\]])*)\](?:;|$)/gy;
  for (const [, name, list] of text.matchAll(term)) {
    const values = parsed(`[${list ?? ""}]`);
    const key = name?.startsWith('"') === true ? parsed(name) : name;
    if (typeof key !== "string" || !Array.isArray(values)) continue;
    const categories = categoriesOf(key);
    if (categories !== undefined) {
      const chosen = categories.filter((category) => values.some((value) => isMeant(category, value)));
      brushes.set(key, { values: chosen });
    } else {
      const [low, high] = values as unknown[];
      if (typeof low === "number" && typeof high === "number") brushes.set(key, { range: [low, high] });
    }
  }
  return brushes;
}

/** Whether a value of the text, where all but numbers stand in quotes, means this category. */
const isMeant = (category: unknown, value: unknown) =>
  typeof category === "string" || typeof category === "number"
    ? category === value
    : JSON.stringify(category) === value;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The rows, among these, that lie in all brushes. */
export function rowsIn(columns: Columns, among: Uint32Array, brushes: Brushes): Uint32Array {
  let rows = among;
  for (const [name, brush] of brushes) {
    const column = columns.get(name);
    if (column === undefined) continue; // not read yet
    if ("values" in brush) {
      const codes = new Set(brush.values.map((value) => column.categories?.indexOf(value) ?? -1));
      rows = rows.filter((row) => codes.has(column.values[row] ?? -1));
      continue;
    }
    const values = numbersOf(column);
    // The server's numbers are doubles: a limit has to be as coarse as what is compared with it.
    const rounded = values instanceof Float32Array ? Math.fround : (value: number) => value;
    const [low, high] = [rounded(brush.range[0]), rounded(brush.range[1])];
    rows = rows.filter((row) => {
      const value = values[row] ?? NaN;
      return value >= low && value <= high;
    });
  }
  return rows;
}

export function withBrush(brushes: Brushes, name: string, brush: Brush | null): Brushes {
  const after = new Map(brushes);
  if (brush === null) after.delete(name);
  else after.set(name, brush);
  return after;
}
