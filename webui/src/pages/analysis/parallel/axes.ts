/** The axes of parallel coordinates: which there are, in which order, and how each is drawn. */
import { scaleOf, type Axis, type Scale } from "@/ui/plot/scale";
import { categoryText } from "@/data/packed";
import type { Described, Shared } from "../shared";

export interface AxisLook {
  name: string;
  log: boolean;
  inverted: boolean;
}

const MOST_AT_FIRST = 12;

/** As the address says; else the parameters that trials have, and the metric. */
export function looksOf(text: string, described: readonly Described[], metric: string): AxisLook[] {
  const known = new Map(described.map((one) => [one.name, one]));
  const named = text.split(",").flatMap((item): AxisLook[] => {
    const [name = "", flags = ""] = item.split("~").map(decodeURIComponent);
    return known.has(name) ? [{ name, log: flags.includes("l"), inverted: flags.includes("i") }] : [];
  });
  if (named.length > 0) return named;
  const parameters = described.filter(({ name, count }) => name.startsWith("parameters.") && count > 0);
  return [...parameters.slice(0, MOST_AT_FIRST).map(({ name }) => name), metric].map((name) => ({
    name,
    log: canBeLog(known.get(name)) && known.get(name)?.log === true,
    inverted: false,
  }));
}

export const textOfLooks = (looks: readonly AxisLook[]): string =>
  looks
    .map(({ name, log, inverted }) => {
      const flags = `${log ? "l" : ""}${inverted ? "i" : ""}`;
      return encodeURIComponent(name) + (flags === "" ? "" : `~${flags}`);
    })
    .join(",");

export const canBeLog = (described: Described | undefined): boolean =>
  described?.kind === "number" && (described.min ?? 0) > 0;

export function moved(looks: readonly AxisLook[], from: number, to: number): AxisLook[] {
  const after = [...looks];
  const [one] = after.splice(from, 1);
  if (one !== undefined) after.splice(Math.max(0, Math.min(to, after.length)), 0, one);
  return after;
}

export interface PlacedAxis extends AxisLook {
  label: string;
  x: number;
  /** Width that its name may take. */
  room: number;
  scale: Scale;
}

export interface Space {
  width: number;
  top: number;
  bottom: number;
}

const SIDE = 64;

/** The axes, at equal distances, from `top` to `bottom`. */
export function placed(
  looks: readonly AxisLook[],
  described: readonly Described[],
  space: Space,
  labelOf: Shared["label"],
): PlacedAxis[] {
  const known = new Map(described.map((one) => [one.name, one]));
  const step = looks.length > 1 ? (space.width - 2 * SIDE) / (looks.length - 1) : 0;
  return looks.map((look, index) => {
    const label = labelOf(look.name);
    const axis = axisFor(known.get(look.name), look, label);
    const [from, to] = look.inverted ? [space.top, space.bottom] : [space.bottom, space.top];
    const x = looks.length > 1 ? SIDE + index * step : space.width / 2;
    const room = Math.min(step || space.width, 2 * Math.min(x, space.width - x)) - 4;
    return { ...look, label, x, room, scale: scaleOf(axis, null, from, to) };
  });
}

function axisFor(described: Described | undefined, { log }: AxisLook, label: string): Axis {
  const categories = described?.categories?.map(categoryText);
  if (categories !== undefined)
    return { label, kind: "category", min: -0.5, max: categories.length - 0.5, categories };
  const [min, max] = [described?.min ?? 0, described?.max ?? 1];
  const kind = log && min > 0 ? "log" : described?.kind === "time" ? "time" : "linear";
  if (min < max) return { label, kind, min, max };
  return { label, kind, min: min - (Math.abs(min) / 2 || 1), max: max + (Math.abs(max) / 2 || 1) };
}
