import { formatNumber } from "@/ui/format";
import { isRecord } from "./space";

/** Names and values of a parameter set. The names of nested ones are those of columns: see `shownName`. */
export function flat(parameters: unknown, prefix = ""): [string, unknown][] {
  if (!isRecord(parameters)) return prefix === "" ? [] : [[shownName(prefix), parameters]];
  return Object.entries(parameters).flatMap(([key, item]) =>
    flat(item, prefix === "" ? key : `${prefix}/${key}`),
  );
}

/** A parameter's name on every page: `net/size` below the choice `net`, whose own `net/_name` is `net`. */
export const shownName = (name: string): string => name.replace(/\/_name$/, "");

/** A value as tables show it. */
export function shownValue(value: unknown): string {
  if (typeof value === "number") return formatNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
