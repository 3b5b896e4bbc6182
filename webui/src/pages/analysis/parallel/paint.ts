/** Draws parallel coordinates: lines of some trials, or ribbons of as many as there are. */
import { numbersOf } from "@/data/packed";
import { LEVELS, levelColours, type Colours } from "@/ui/chart/colours";
import { marksOf, type Scale } from "@/ui/plot/scale";
import type { Metric, Shared } from "../shared";
import type { PlacedAxis, Space } from "./axes";

export const MOST_LINES = 5000;
/** Below the axes is the place of trials without a value. */
export const NO_VALUE = 20;

type Context = CanvasRenderingContext2D;

export function paintAxes(
  context: Context,
  axes: readonly PlacedAxis[],
  space: Space,
  colours: Colours,
): void {
  context.font = `11px ${colours.sans}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const { x, scale } of axes) {
    context.strokeStyle = colours.strongLine;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, space.top);
    context.lineTo(x, space.bottom);
    const marks = marksOf(scale, 6);
    for (const { value } of marks) {
      const y = scale.at(value);
      context.moveTo(x - 3, y);
      context.lineTo(x + 3, y);
    }
    context.stroke();
    for (const { value, label } of marks) {
      const text = label.length > 14 ? `${label.slice(0, 13)}…` : label;
      const y = scale.at(value);
      context.lineWidth = 3; // so that it can be read above the lines
      context.strokeStyle = colours.card;
      context.strokeText(text, x + 6, y);
      context.fillStyle = colours.ink;
      context.fillText(text, x + 6, y);
    }
  }
}

/** Where a trial's line meets each axis. */
export function heightsOf(shared: Shared, axes: readonly PlacedAxis[], space: Space): Float32Array[] {
  return axes.map(({ name, scale }) => {
    const column = shared.columns.get(name);
    if (column === undefined) return new Float32Array(shared.columns.rows).fill(space.bottom + NO_VALUE);
    return Float32Array.from(numbersOf(column), (value) => heightOf(value, scale, space));
  });
}

export function heightOf(value: number, scale: Scale, space: Space): number {
  const height = scale.at(value);
  return Number.isFinite(height) ? height : space.bottom + NO_VALUE;
}

/** Those of the best trials on top. */
export function paintLines(
  context: Context,
  axes: readonly PlacedAxis[],
  heights: readonly Float32Array[],
  rows: Uint32Array,
  metric: Metric,
  colours: Colours,
): void {
  const parts: number[][] = Array.from({ length: LEVELS }, () => []);
  for (const row of rows) parts[metric.levels[row] ?? 0]?.push(row);
  context.lineWidth = rows.length > 1000 ? 1 : 1.5;
  context.globalAlpha = Math.max(0.25, Math.min(0.9, 60 / Math.sqrt(rows.length + 1)));
  levelColours(colours.dark).forEach((colour, level) => {
    context.strokeStyle = colour;
    for (const row of parts[level] ?? []) {
      context.beginPath();
      axes.forEach(({ x }, index) => context.lineTo(x, heights[index]?.[row] ?? 0));
      context.stroke();
    }
  });
  context.globalAlpha = 1;
}

/** The row whose line is nearest to a point, within 6 pixels; -1 if there is none. */
export function lineAt(
  axes: readonly PlacedAxis[],
  heights: readonly Float32Array[],
  rows: Uint32Array,
  at: { x: number; y: number },
): number {
  const right = axes.findIndex(({ x }) => x >= at.x);
  const [from, to] = [axes[right - 1], axes[right]];
  if (from === undefined || to === undefined) return -1;
  const share = (at.x - from.x) / (to.x - from.x || 1);
  let [found, distance] = [-1, 6];
  for (const row of rows) {
    const left = heights[right - 1]?.[row] ?? 0;
    const far = Math.abs(left + ((heights[right]?.[row] ?? 0) - left) * share - at.y);
    if (far < distance) [found, distance] = [row, far];
  }
  return found;
}
