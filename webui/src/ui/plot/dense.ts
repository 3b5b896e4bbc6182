/** Very many points, pixel by pixel: several times as fast as a rectangle for each, and the same to look at. */

export interface Raster {
  width: number;
  height: number;
  /** By pixel: how many points lie over each other there (at most 255), and the highest of their levels. */
  counts: Uint8Array;
  levels: Uint8Array;
}

/** `across`, `down`: places in pixels; a mark begins half its size before them. What is outside is left out. */
export function rasterOf(
  rows: Uint32Array,
  across: (row: number) => number,
  down: (row: number) => number,
  size: number,
  { width, height }: { width: number; height: number },
  levelOf: (row: number) => number,
): Raster {
  const [counts, levels] = [new Uint8Array(width * height), new Uint8Array(width * height)];
  for (const row of rows) {
    const [left, top] = [across(row), down(row)];
    if (!(left >= 0 && left <= width && top >= 0 && top <= height)) continue;
    const [fromX, fromY] = [Math.round(left - size / 2), Math.round(top - size / 2)];
    const level = levelOf(row);
    for (let y = Math.max(0, fromY); y < fromY + size && y < height; y += 1)
      for (let x = Math.max(0, fromX); x < fromX + size && x < width; x += 1) {
        const pixel = y * width + x;
        const count = counts[pixel] ?? 0;
        if (count < 255) counts[pixel] = count + 1;
        if (level > (levels[pixel] ?? 0)) levels[pixel] = level;
      }
  }
  return { width, height, counts, levels };
}

/** The picture of a raster whose points have this alpha each, and the colours of their levels. */
export function pictureOf(raster: Raster, colours: readonly string[], alpha: number): OffscreenCanvas {
  const { width, height, counts, levels } = raster;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  const palette = bytesOf(colours);
  const covers = Uint8Array.from({ length: 256 }, (_, count) => 255 * (1 - (1 - alpha) ** count));
  const image = context.createImageData(width, height);
  counts.forEach((count, pixel) => {
    if (count === 0) return;
    const colour = (levels[pixel] ?? 0) * 4;
    for (let part = 0; part < 3; part += 1) image.data[pixel * 4 + part] = palette[colour + part] ?? 0;
    image.data[pixel * 4 + 3] = covers[count] ?? 0;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Red, green, blue and alpha of each: whatever form CSS has for a colour. */
function bytesOf(colours: readonly string[]): ArrayLike<number> {
  const context = new OffscreenCanvas(colours.length, 1).getContext("2d", { willReadFrequently: true });
  if (context === null) return [];
  colours.forEach((colour, at) => {
    context.fillStyle = colour;
    context.fillRect(at, 0, 1, 1);
  });
  return context.getImageData(0, 0, colours.length, 1).data;
}
