/** What the dialogs begin with, and what is wrong with results that are to be imported. Pure. */
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { isRecord } from "@/ui/trial/space";

export const MOST_RECORDS = 100_000;

const text = strings.change.results;
const DEAF = new Set(["random", "randomtuner"]); // names of tuners that do not learn from results

export type ImportedRecord = Schemas["ImportedRecord"];
export type ReadRecords = { records: ImportedRecord[] } | { fault: string };

/** A search space as JSON, with one line for each parameter. */
export const spaceText = (space: Readonly<Record<string, unknown>>): string =>
  lines(
    Object.entries(space).map(([name, spec]) => `${JSON.stringify(name)}: ${spaced(spec)}`),
    "{}",
  );

/** Constraints as JSON, one in each line; empty if there are none. */
export const constraintsText = (constraints: unknown): string =>
  Array.isArray(constraints) && constraints.length > 0 ? lines(constraints.map(spaced), "[]") : "";

export const tunerText = (tuner: unknown): string => `${JSON.stringify(tuner, null, 2)}\n`;

/** The results in a text of the form that `nnictl experiment export` writes. */
export function readRecords(written: string): ReadRecords {
  if (written.trim() === "") return { fault: text.empty };
  let list: unknown;
  try {
    list = JSON.parse(written);
  } catch (error) {
    return { fault: text.notJson(error instanceof Error ? error.message : String(error)) };
  }
  if (!Array.isArray(list)) return { fault: text.noList };
  if (list.length === 0) return { fault: text.none };
  if (list.length > MOST_RECORDS) return { fault: text.tooMany(MOST_RECORDS) };
  const records: ImportedRecord[] = [];
  for (const [index, record] of (list as unknown[]).entries()) {
    const at = index + 1;
    if (!isRecord(record)) return { fault: text.noObject(at) };
    const missing = ["parameter", "value"].find((key) => !(key in record));
    if (missing !== undefined) return { fault: text.missing(at, missing) };
    const { parameter, value } = record;
    if (!isRecord(parameter)) return { fault: text.noParameters(at) };
    records.push({ parameter, value });
  }
  return { records };
}

/** The name of a tuner that learns nothing from results, or null. */
export function deafTuner(tuner: unknown): string | null {
  const name = isRecord(tuner) ? tuner.name : null;
  return typeof name === "string" && DEAF.has(name.toLowerCase()) ? name : null;
}

function lines(entries: readonly string[], brackets: "{}" | "[]"): string {
  const [open, close] = brackets;
  return entries.length === 0 ? `${brackets}\n` : `${open}\n  ${entries.join(",\n  ")}\n${close}\n`;
}

/** JSON in one line, with blanks as people write them. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (!isRecord(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${spaced(item)}`);
  return `{${entries.join(", ")}}`;
}
