/** What is painted on a canvas, as text of SVG. */
import type { Colours } from "@/ui/chart/colours";
import type { Size } from "./canvas";

export async function vectorOf(
  { width, height }: Size,
  colours: Colours,
  paint: (context: CanvasRenderingContext2D) => void,
): Promise<string> {
  const { vectorContext } = await import("./vectorContext"); // only who saves a picture pays for it
  const context = vectorContext(width, height);
  context.font = `12px ${colours.sans}`;
  context.fillStyle = colours.card;
  context.fillRect(0, 0, width, height);
  paint(context);
  return context.getSerializedSvg();
}
