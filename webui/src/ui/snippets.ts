/** A parameter set as text to paste elsewhere. */
import { toYaml } from "./yaml";

export const asYaml = (parameters: unknown): string => toYaml(parameters);

export const asJson = (value: unknown): string => JSON.stringify(value, null, 2) + "\n";

/** A literal of Python's. */
export function asPython(value: unknown, depth = 0): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const items = Array.isArray(value)
    ? value.map((item) => asPython(item, depth + 1))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${asPython(item, depth + 1)}`);
  const line = `${open ?? ""}${items.join(", ")}${close ?? ""}`;
  if (line.length + 4 * depth <= 79 && !line.includes("\n")) return line;
  const indent = "    ".repeat(depth + 1);
  return `${open ?? ""}\n${items.map((item) => `${indent}${item},\n`).join("")}${"    ".repeat(depth)}${close ?? ""}`;
}

/** Options for a shell, as argparse takes them: nested names are joined by dots. */
export function asOptions(parameters: unknown): string {
  return flat(parameters)
    .map(([name, value]) => `--${quoted(name)} ${quoted(value)}`)
    .join(" ");
}

/** Names and values of a parameter set, the nested ones by dotted names. */
export function flat(parameters: unknown, prefix = ""): [string, string][] {
  if (typeof parameters !== "object" || parameters === null || Array.isArray(parameters))
    return prefix === "" ? [] : [[prefix, shown(parameters)]];
  return Object.entries(parameters).flatMap(([key, item]) =>
    flat(item, prefix === "" ? key : `${prefix}.${key}`),
  );
}

const shown = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "null");

const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
