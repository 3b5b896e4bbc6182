/** A parameter set in the languages that people paste it into. */

export function asJson(parameters: unknown): string {
  return JSON.stringify(parameters, null, 2);
}

/** A Python literal. */
export function asPython(value: unknown, indent = ""): string {
  const inner = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map((item) => asPython(item, indent)).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const lines = Object.entries(value).map(
    ([key, item]) => `${inner}${JSON.stringify(key)}: ${asPython(item, inner)},`,
  );
  return lines.length === 0 ? "{}" : `{\n${lines.join("\n")}\n${indent}}`;
}

/** `--lr 0.1 --layer._name conv`, quoted for a POSIX shell. */
export function asCommandLine(parameters: unknown): string {
  const words: string[] = [];
  const add = (prefix: string, value: unknown) => {
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      for (const [key, item] of Object.entries(value)) add(prefix === "" ? key : `${prefix}.${key}`, item);
    else words.push(quoted(`--${prefix}`), quoted(typeof value === "string" ? value : JSON.stringify(value)));
  };
  add("", parameters);
  return words.join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** YAML in blocks, lists of scalars on a line; texts that could be read as something else stand in quotes. */
export function asYaml(value: unknown): string {
  return block(value, 0).replace(/^\n/, "") + "\n";
}

/** What stands after a key or a dash: a scalar on the same line, or lines of their own. */
function block(value: unknown, depth: number): string {
  const indent = `\n${"  ".repeat(depth)}`;
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    if (items.every((item) => typeof item !== "object" || item === null))
      return `[${items.map(scalar).join(", ")}]`;
    return items.map((item) => `${indent}- ${block(item, depth + 1).trimStart()}`).join("");
  }
  if (typeof value !== "object" || value === null) return scalar(value);
  const lines = Object.entries<unknown>({ ...value }).map(([key, item]) => {
    const below = block(item, depth + 1);
    return `${indent}${scalar(key)}:${below.startsWith("\n") ? below : ` ${below}`}`;
  });
  return lines.length === 0 ? "{}" : lines.join("");
}

const WORD = /^[A-Za-z_][\w./-]*$/;
const SPECIAL = /^(true|false|yes|no|on|off|null|y|n)$/i;

function scalar(value: unknown): string {
  if (typeof value === "string" && WORD.test(value) && !SPECIAL.test(value)) return value;
  return JSON.stringify(value); // YAML has JSON within it
}
