/**
 * Draws parallel coordinates of more trials than there can be lines: a ribbon for each pair of bins of two
 * neighbouring axes. The ribbons are summed up pixel by pixel here, which takes a tenth of the time that as
 * many strokes of a canvas take where no graphics card draws them.
 */
import { levelColours, type Colours } from "@/ui/chart/colours";
import { goodnessOf } from "../metric";
import type { Metric } from "../shared";
import type { PlacedAxis, Space } from "./axes";
import type { Bins } from "./bins";
import { heightOf, NO_VALUE } from "./paint";
import { sumUp, THICK, type Sums } from "./sums";

const GRAIN = 2; // pixels of the picture, each way, to one that is summed up
const FAINTEST = 0.1;
const OPACITY = 2 ** 24; // where a pixel holds it, as browsers run on little-endian machines only

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
  const image = drawing.createImageData(width, height);
  const good = (mean: number) => (metric === null ? 0 : goodnessOf(mean, metric.worst, metric.best));
  const inks = inksOf(metric === null ? [colours.quiet] : levelColours(colours.dark));
  const heights = heightsOfBins(axes, bins, space);
  const places = axes.map(({ x }) => Math.round(x / GRAIN));
  bins.pairs.forEach((cells, pair) => {
    const from = places[pair] ?? 0;
    const columns = (places[pair + 1] ?? 0) - from;
    if (columns <= 0) return;
    const sums = sumUp(cells, heights[pair] ?? [], heights[pair + 1] ?? [], columns, height, good);
    colour(image, sums, from, inks, metric === null ? 0.3 : 1);
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

/** Give the pixels between two axes their colours: density is told in relation to the densest of them. */
function colour(image: ImageData, sums: Sums, from: number, inks: Uint32Array, strength: number): void {
  const { columns, height, trials, goodness } = sums;
  const pixels = new Uint32Array(image.data.buffer);
  let most = 0;
  for (const here of trials) most = Math.max(most, here);
  for (let column = 0; column < columns; column += 1) {
    for (let y = 0; y < height - 1; y += 1) {
      const at = column * height + y;
      const here = trials[at] ?? 0;
      if (here === 0) continue;
      const ink = inks[Math.round(((goodness[at] ?? 0) / here) * (inks.length - 1))] ?? 0;
      const density = FAINTEST + (1 - FAINTEST) * Math.sqrt(here / most);
      pixels[y * image.width + from + column] = ink + Math.round(255 * strength * density) * OPACITY;
    }
  }
}

/** Colours as pixels hold them, without their opacity. */
const inksOf = (texts: readonly string[]): Uint32Array =>
  Uint32Array.from(texts, (text) => {
    const [red = 0, green = 0, blue = 0] = rgb(text);
    return red + green * 2 ** 8 + blue * 2 ** 16;
  });

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
