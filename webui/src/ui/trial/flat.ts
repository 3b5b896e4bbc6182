import { formatNumber } from "@/ui/format";
import { isRecord } from "./space";

/** Names and values of a parameter set, the nested ones by dotted names. */
export function flat(parameters: unknown, prefix = ""): [string, unknown][] {
  if (!isRecord(parameters)) return prefix === "" ? [] : [[prefix, parameters]];
  return Object.entries(parameters).flatMap(([key, item]) =>
    flat(item, prefix === "" ? key : `${prefix}.${key}`),
  );
}

/** A value as tables show it. */
export function shownValue(value: unknown): string {
  if (typeof value === "number") return formatNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
