/** A JSON value as YAML, in block style. */

export function toYaml(value: unknown): string {
  return block(value, 0).replace(/^\n/, "") + "\n";
}

/** What follows a key or a dash: a scalar on the same line, or lines of their own. */
function block(value: unknown, depth: number): string {
  const indent = "\n" + "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.every((item) => typeof item !== "object" || item === null))
      return `[${value.map(scalar).join(", ")}]`;
    return value.map((item) => `${indent}- ${block(item, depth + 1).trimStart()}`).join("");
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) return "{}";
    return entries
      .map(([key, item]) => {
        const below = block(item, depth + 1);
        return `${indent}${scalar(key)}:${below.startsWith("\n") ? below : ` ${below}`}`;
      })
      .join("");
  }
  return scalar(value);
}

const PLAIN_TEXT = /^[A-Za-z_/.][\w./ -]*$/;
const ANOTHER_MEANING = /^(?:true|false|yes|no|on|off|null|y|n|\.inf|\.nan)$|^\.\d|\s$/i;

function scalar(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value) ?? "null";
  return PLAIN_TEXT.test(value) && !ANOTHER_MEANING.test(value) ? value : JSON.stringify(value);
}
