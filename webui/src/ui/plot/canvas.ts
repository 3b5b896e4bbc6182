/** Canvases as sharp as the screen, and pictures of them. */

export interface Size {
  width: number;
  height: number;
}

/** The canvas' context, empty, in CSS pixels; null as long as it has no size. */
export function contextOf(canvas: HTMLCanvasElement | null, { width, height }: Size) {
  if (canvas === null || width === 0 || height === 0) return null;
  const density = window.devicePixelRatio;
  const [wide, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(density, 0, 0, density, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

/** One picture of canvases of the same size that lie above each other, on a background. */
export function copyOf(
  canvases: readonly (HTMLCanvasElement | null)[],
  background: string,
): HTMLCanvasElement | null {
  const [first] = canvases;
  const copy = document.createElement("canvas");
  const context = copy.getContext("2d");
  if (first === null || first === undefined || context === null) return null;
  copy.width = first.width;
  copy.height = first.height;
  context.fillStyle = background;
  context.fillRect(0, 0, copy.width, copy.height);
  for (const canvas of canvases) if (canvas !== null) context.drawImage(canvas, 0, 0);
  return copy;
}
