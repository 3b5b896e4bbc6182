/** A drawing context that writes SVG. */
import { Context } from "svgcanvas";

const ANCHORS = { left: "start", start: "start", center: "middle", right: "end", end: "end" } as const;
const BASELINES: Partial<Record<CanvasTextBaseline, string>> = { middle: "central", top: "hanging" };

/**
 * The library reads a font by way of a style attribute, which the content security policy forbids; so texts are
 * written here. Fonts are written `12px family`.
 */
class VectorContext extends Context {
  __applyText(text: string, x: number, y: number, action: "fill" | "stroke"): void {
    const [size = "12px", ...family] = this.font.split(" ");
    const attributes = {
      "font-family": family.join(" "),
      "font-size": size,
      x,
      y,
      "text-anchor": ANCHORS[this.textAlign],
      "dominant-baseline": BASELINES[this.textBaseline] ?? "alphabetic",
    };
    const element = this.__createElement("text", attributes, true);
    element.append(text);
    const parent = this.__closestGroupOrSvg();
    this.__currentElement = element;
    this.__applyTransformation(element);
    this.__applyStyleToCurrentElement(action);
    parent.append(element);
  }
}

export function vectorContext(
  width: number,
  height: number,
): CanvasRenderingContext2D & { getSerializedSvg: () => string } {
  return new VectorContext(width, height) as unknown as CanvasRenderingContext2D & VectorContext;
}
