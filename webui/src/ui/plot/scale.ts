/** From values to pixels and back, and where an axis has its marks. */
import { formatDuration, formatNumber } from "@/ui/format";

export interface Axis {
  label: string;
  /** Categories are numbered from 0; times are in seconds. */
  kind: "linear" | "log" | "category" | "time";
  min: number;
  max: number;
  categories?: readonly string[];
}

export interface Scale {
  axis: Axis;
  low: number;
  high: number;
  /** The pixel of a value. */
  at: (value: number) => number;
  /** The value at a pixel. */
  of: (pixel: number) => number;
}

/** An axis over these values, with a little room at its ends; one of categories if there are any. */
export function axisOf(
  label: string,
  values: ArrayLike<number>,
  {
    log = false,
    time = false,
    categories,
  }: { log?: boolean; time?: boolean; categories?: readonly string[] } = {},
): Axis {
  if (categories !== undefined)
    return { label, kind: "category", min: -0.5, max: Math.max(categories.length, 1) - 0.5, categories };
  let [min, max] = [Infinity, -Infinity];
  for (let row = 0; row < values.length; row += 1) {
    const value = values[row] ?? NaN;
    if (value < min && (value > 0 || !log)) min = value;
    if (value > max) max = value;
  }
  if (log && max > 0) {
    const room = min === max ? 2 : (max / min) ** 0.03;
    return { label, kind: "log", min: min / room, max: max * room };
  }
  if (min > max) return { label, kind: time ? "time" : "linear", min: 0, max: 1 };
  const room = min === max ? Math.abs(min) / 2 || 1 : (max - min) * 0.03;
  return { label, kind: time ? "time" : "linear", min: min - room, max: max + room };
}

export function scaleOf(axis: Axis, view: readonly [number, number] | null, from: number, to: number): Scale {
  const [low, high] = view ?? [axis.min, axis.max];
  if (axis.kind === "log") {
    const [start, end] = [Math.log10(low), Math.log10(high)];
    const slope = (to - from) / (end - start || 1);
    return {
      axis,
      low,
      high,
      at: (value) => from + (Math.log10(value) - start) * slope,
      of: (pixel) => 10 ** (start + (pixel - from) / slope),
    };
  }
  const slope = (to - from) / (high - low || 1);
  return {
    axis,
    low,
    high,
    at: (value) => from + (value - low) * slope,
    of: (pixel) => low + (pixel - from) / slope,
  };
}

/** What is seen after drawing nearer by `factor` (below 1) or further away, `pixel` staying where it is. */
export function zoomed(
  scale: Scale,
  pixel: number,
  factor: number,
  from: number,
  to: number,
): [number, number] {
  const ends = [scale.of(pixel + (from - pixel) * factor), scale.of(pixel + (to - pixel) * factor)];
  return [Math.max(ends[0] ?? 0, scale.axis.min), Math.min(ends[1] ?? 0, scale.axis.max)];
}

export interface Mark {
  value: number;
  label: string;
}

const FEWEST_MARKS = 3; // of numbers: fewer do not show a scale

/** About `count` marks, of numbers at least three if there are so many round ones. */
export function marksOf(scale: Scale, count: number): Mark[] {
  const marks = someMarks(scale, count);
  if (scale.axis.kind === "category" || marks.length >= FEWEST_MARKS || count >= 3 * FEWEST_MARKS)
    return marks;
  const more = marksOf(scale, count + 1);
  return more.length > marks.length ? more : marks;
}

function someMarks({ axis, low, high }: Scale, count: number): Mark[] {
  if (axis.kind === "category") {
    const step = Math.max(1, Math.ceil((high - low) / Math.max(count, 1)));
    const first = Math.max(0, Math.ceil(low));
    const marks: Mark[] = [];
    for (let code = first; code <= high && code < (axis.categories?.length ?? 0); code += step)
      marks.push({ value: code, label: axis.categories?.[code] ?? "" });
    return marks;
  }
  if (axis.kind === "log" && low > 0 && high / low >= 20) return decades(low, high, count);
  if (axis.kind === "time") return every(timeStep((high - low) / count), low, high, formatDuration);
  return every(niceStep((high - low) / Math.max(count, 1)), low, high, formatNumber);
}

function every(step: number, low: number, high: number, text: (value: number) => string): Mark[] {
  const marks: Mark[] = [];
  if (!(step > 0)) return marks;
  for (let index = Math.ceil(low / step); index * step <= high && marks.length < 100; index += 1) {
    const value = Number((index * step).toPrecision(12));
    marks.push({ value, label: text(value) });
  }
  return marks;
}

function decades(low: number, high: number, count: number): Mark[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(count, 1)));
  const marks: Mark[] = [];
  for (let power = first; power <= last; power += step) {
    const value = Number(`1e${power}`);
    marks.push({ value, label: power < -3 || power > 4 ? `1e${power}` : formatNumber(value) });
  }
  return marks;
}

function niceStep(rough: number): number {
  const size = 10 ** Math.floor(Math.log10(rough));
  const share = rough / size;
  return (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10) * size;
}

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
  604_800,
];

function timeStep(rough: number): number {
  if (rough < 1) return niceStep(rough);
  return TIME_STEPS.find((step) => step >= rough) ?? niceStep(rough / 86_400) * 86_400;
}
