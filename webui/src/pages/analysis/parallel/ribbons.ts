/**
 * Draws parallel coordinates of more trials than there can be lines: a ribbon for each pair of bins of two
 * neighbouring axes. The ribbons are summed up pixel by pixel here, which takes a tenth of the time that as
 * many strokes of a canvas take where no graphics card draws them.
 */
import { LEVELS, levelColours, type Colours } from "@/ui/chart/colours";
import { levelOf } from "../metric";
import type { Metric } from "../shared";
import type { PlacedAxis, Space } from "./axes";
import type { Bins, Cells } from "./bins";
import { heightOf, NO_VALUE } from "./paint";

const GRAIN = 2; // pixels of the picture, each way, to one that is summed up
const THICK = 3; // of a ribbon, in those
const FAINTEST = 0.1;

/** How many trials go through each pixel, and the sum of their metrics. */
interface Sums {
  width: number;
  height: number;
  trials: Float32Array;
  metrics: Float32Array;
}

/** The more trials the denser, in the colour of their mean; without a metric in faint grey. */
export function paintRibbons(
  context: CanvasRenderingContext2D,
  axes: readonly PlacedAxis[],
  bins: Bins,
  space: Space,
  metric: Metric | null,
  colours: Colours,
): void {
  const width = Math.ceil(space.width / GRAIN);
  const height = Math.ceil((space.bottom + NO_VALUE) / GRAIN) + THICK;
  const picture = document.createElement("canvas");
  picture.width = width;
  picture.height = height;
  const drawing = picture.getContext("2d");
  if (drawing === null) return;
  const sums = {
    width,
    height,
    trials: new Float32Array(width * height),
    metrics: new Float32Array(width * height),
  };
  const image = drawing.createImageData(width, height);
  const heights = heightsOfBins(axes, bins, space);
  bins.pairs.forEach((cells, pair) => {
    const between = [axes[pair]?.x ?? 0, axes[pair + 1]?.x ?? 0].map((x) => Math.round(x / GRAIN));
    const [from = 0, to = 0] = between;
    sumUp(sums, cells, heights[pair] ?? [], heights[pair + 1] ?? [], from, to, metric?.worst ?? 0);
    colour(image, sums, from, to, metric, colours);
  });
  drawing.putImageData(image, 0, 0);
  context.drawImage(picture, 0, 0, width * GRAIN, height * GRAIN);
}

/** Where the middle of each bin is; the last one is that of trials without a value. */
function heightsOfBins(axes: readonly PlacedAxis[], bins: Bins, space: Space): number[][] {
  return bins.header.axes.map((axis, index) =>
    Array.from({ length: axis.bins + 1 }, (_, part) => {
      const scale = axes[index]?.scale;
      const nowhere = scale === undefined || part === axis.bins;
      return (nowhere ? space.bottom + NO_VALUE : heightOf(valueIn(axis, part), scale, space)) / GRAIN;
    }),
  );
}

function sumUp(
  { width, trials, metrics }: Sums,
  { cells, counts, means }: Cells,
  left: readonly number[],
  right: readonly number[],
  from: number,
  to: number,
  worst: number,
): void {
  const columns = to - from || 1;
  for (let index = 0; index < cells.length; index += 1) {
    const cell = cells[index] ?? 0;
    const count = counts[index] ?? 0;
    const mean = means[index] ?? NaN;
    const metric = count * (Number.isNaN(mean) ? worst : mean);
    const start = left[Math.floor(cell / right.length)] ?? 0;
    const slope = ((right[cell % right.length] ?? 0) - start) / columns;
    const thick = Math.max(THICK, Math.ceil(Math.abs(slope)) + 1); // a steep one has no gaps
    for (let column = 0; column < columns; column += 1) {
      const top = Math.round(start + slope * column - thick / 2);
      for (let row = 0; row < thick; row += 1) {
        const pixel = (top + row) * width + from + column;
        trials[pixel] = (trials[pixel] ?? 0) + count;
        metrics[pixel] = (metrics[pixel] ?? 0) + metric;
      }
    }
  }
}

/** Give the pixels between two axes their colours: density is told in relation to the densest of them. */
function colour(
  image: ImageData,
  { width, height, trials, metrics }: Sums,
  from: number,
  to: number,
  metric: Metric | null,
  colours: Colours,
): void {
  const palette = metric === null ? [rgb(colours.quiet)] : levelColours(colours.dark).map(rgb);
  const strength = metric === null ? 0.3 : 1;
  let most = 0;
  for (let y = 0; y < height; y += 1)
    for (let x = from; x < to; x += 1) most = Math.max(most, trials[y * width + x] ?? 0);
  for (let y = 0; y < height; y += 1) {
    for (let x = from; x < to; x += 1) {
      const pixel = y * width + x;
      const here = trials[pixel] ?? 0;
      if (here === 0) continue;
      const level = metric === null ? 0 : levelOf((metrics[pixel] ?? 0) / here, metric.worst, metric.best);
      const [red = 0, green = 0, blue = 0] = palette[Math.min(level, LEVELS - 1)] ?? [];
      const density = FAINTEST + (1 - FAINTEST) * Math.sqrt(here / most);
      const at = 4 * pixel;
      image.data[at] = red;
      image.data[at + 1] = green;
      image.data[at + 2] = blue;
      image.data[at + 3] = 255 * strength * density;
    }
  }
}

/** Red, green and blue of `#rrggbb` or `rgb(r g b)`. */
function rgb(text: string): number[] {
  if (!text.startsWith("#")) return (text.match(/\d+/g) ?? []).map(Number);
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** The middle of a part of an axis. */
function valueIn(axis: Bins["header"]["axes"][number], part: number): number {
  if (axis.categories !== null) return part;
  const share = (part + 0.5) / axis.bins;
  if (!axis.log) return axis.low + share * (axis.high - axis.low);
  return axis.low * (axis.high / axis.low) ** share;
}
