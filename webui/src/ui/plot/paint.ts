/** What all plots draw alike: axes and points. */
import type { Colours } from "@/ui/chart/colours";
import { pictureOf, rasterOf } from "./dense";
import { marksOf, type Scale } from "./scale";

/** Where a plot draws: the room inside its axes, in pixels. */
export interface Room {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Scales {
  x: Scale;
  y: Scale;
  room: Room;
}

export type Paint = (context: CanvasRenderingContext2D, scales: Scales) => void;

/** As much room for the labels of the y axis as they take. */
export function leftOf(context: CanvasRenderingContext2D, scale: Scale, compact: boolean): number {
  const widths = marksOf(scale, 6).map(({ label }) => context.measureText(shortened(label, MOST_LEFT)).width);
  return Math.ceil(Math.max(16, ...widths)) + (compact ? 12 : 32);
}

function paintAxes(context: CanvasRenderingContext2D, { x, y, room }: Scales, colours: Colours): void {
  const [width, height] = [room.right - room.left, room.bottom - room.top];
  context.lineWidth = 1;
  context.fillStyle = colours.soft;
  context.strokeStyle = colours.line;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const { value, label } of marksOf(
    y,
    Math.max(2, Math.floor(height / (y.axis.kind === "category" ? 14 : 44))),
  )) {
    const at = Math.round(y.at(value)) + 0.5;
    line(context, room.left, at, room.right, at);
    context.fillText(shortened(label, MOST_LEFT), room.left - 6, at);
  }
  context.textBaseline = "top";
  context.textAlign = "center";
  const categories = x.axis.kind === "category";
  for (const { value, label } of marksOf(x, Math.max(2, Math.floor(width / (categories ? 46 : 84))))) {
    const at = Math.round(x.at(value)) + 0.5;
    line(context, at, room.top, at, room.bottom);
    context.fillText(
      shortened(label, categories ? Math.max(4, Math.floor(width / (x.high - x.low) / 7)) : 16),
      at,
      room.bottom + 6,
    );
  }
  context.strokeStyle = colours.strongLine;
  line(context, room.left + 0.5, room.top, room.left + 0.5, room.bottom + 0.5);
  line(context, room.left, room.bottom + 0.5, room.right, room.bottom + 0.5);
  context.textBaseline = "alphabetic";
  if (x.axis.label !== "") context.fillText(x.axis.label, room.left + width / 2, room.bottom + 36);
  if (y.axis.label === "") return;
  context.save();
  context.translate(12, room.top + height / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(y.axis.label, 0, 0);
  context.restore();
}

/** The axes, and within them what `paint` draws. */
export function paintWhole(
  context: CanvasRenderingContext2D,
  scales: Scales,
  colours: Colours,
  paint: Paint,
): void {
  const { room } = scales;
  paintAxes(context, scales, colours);
  context.save();
  context.beginPath();
  context.rect(room.left, room.top, room.right - room.left, room.bottom - room.top);
  context.clip();
  paint(context, scales);
  context.restore();
}

function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

const MOST_LEFT = 26; // letters of a label beside the y axis
const shortened = (label: string, most: number) =>
  label.length > most ? `${label.slice(0, most - 1)}…` : label;

/** More points than this are drawn small and thin, so that their number shows as density. */
export const MANY_POINTS = 20_000;

interface Points {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  rows: Uint32Array;
  /** One colour, or one for each of the rows' levels. */
  colour: string | readonly string[];
  levels?: Uint8Array;
  mark?: "square" | "cross" | "ring";
  /** Of a mark, in pixels. */
  size?: number;
  alpha?: number;
}

/** Points without a place are left out. Those with levels: the highest on top. */
export function paintPoints(context: CanvasRenderingContext2D, { x, y, room }: Scales, points: Points): void {
  const { rows, colour, levels, mark = "square" } = points;
  const size = points.size ?? (rows.length > MANY_POINTS ? 2 : rows.length > 3000 ? 3 : 5);
  const alpha = points.alpha ?? (rows.length > MANY_POINTS ? 0.3 : 0.75);
  const half = size / 2;
  const colours = typeof colour === "string" ? [colour] : colour;
  if (mark === "square" && rows.length > MANY_POINTS) {
    paintDense(context, { x, y, room }, points, { size, alpha, colours });
    return;
  }
  context.globalAlpha = alpha;
  const order = levels === undefined || colours.length === 1 ? [rows] : byLevel(rows, levels, colours.length);
  order.forEach((part, level) => {
    context.fillStyle = context.strokeStyle = colours[level] ?? "";
    context.lineWidth = 1.5;
    context.beginPath();
    for (const row of part) {
      const [left, top] = [x.at(points.x[row] ?? NaN), y.at(points.y[row] ?? NaN)];
      if (!(left >= room.left && left <= room.right && top >= room.top && top <= room.bottom)) continue;
      if (mark === "square") {
        context.fillRect(left - half, top - half, size, size);
      } else if (mark === "ring") {
        context.moveTo(left + half, top);
        context.arc(left, top, half, 0, 2 * Math.PI);
      } else {
        context.moveTo(left - half, top - half);
        context.lineTo(left + half, top + half);
        context.moveTo(left + half, top - half);
        context.lineTo(left - half, top + half);
      }
    }
    if (mark !== "square") context.stroke();
  });
  context.globalAlpha = 1;
}

function paintDense(
  context: CanvasRenderingContext2D,
  { x, y, room }: Scales,
  { x: xs, y: ys, rows, levels }: Points,
  { size, alpha, colours }: { size: number; alpha: number; colours: readonly string[] },
): void {
  const sharp = window.devicePixelRatio;
  const [width, height] = [room.right - room.left, room.bottom - room.top];
  const pixels = (length: number) => Math.max(1, Math.round(length * sharp));
  const raster = rasterOf(
    rows,
    (row) => (x.at(xs[row] ?? NaN) - room.left) * sharp,
    (row) => (y.at(ys[row] ?? NaN) - room.top) * sharp,
    pixels(size),
    { width: pixels(width), height: pixels(height) },
    (row) => (colours.length > 1 ? (levels?.[row] ?? 0) : 0),
  );
  context.drawImage(pictureOf(raster, colours, alpha), room.left, room.top, width, height);
}

function byLevel(rows: Uint32Array, levels: Uint8Array, count: number): number[][] {
  const parts: number[][] = Array.from({ length: count }, () => []);
  for (const row of rows) parts[levels[row] ?? 0]?.push(row);
  return parts;
}

/** The row whose point is nearest to a pixel, within 12 pixels; -1 if there is none. */
export function nearest(
  { x, y, room }: Scales,
  xs: ArrayLike<number>,
  ys: ArrayLike<number>,
  rows: Uint32Array,
  at: { x: number; y: number },
): number {
  let [found, distance] = [-1, 144];
  for (const row of rows) {
    const [left, top] = [x.at(xs[row] ?? NaN) - at.x, y.at(ys[row] ?? NaN) - at.y];
    const far = left * left + top * top;
    if (far < distance && left + at.x >= room.left) [found, distance] = [row, far];
  }
  return found;
}
