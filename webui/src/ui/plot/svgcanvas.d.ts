/** The part of svgcanvas that the dashboard uses; the package has no types of its own. */
declare module "svgcanvas" {
  export class Context {
    constructor(width: number, height: number);
    font: string;
    textAlign: CanvasTextAlign;
    textBaseline: CanvasTextBaseline;
    getSerializedSvg(): string;
    __currentElement: SVGElement;
    __closestGroupOrSvg(): SVGElement;
    __createElement(name: string, attributes: Record<string, string | number>, reset: boolean): SVGElement;
    __applyTransformation(element: SVGElement): void;
    __applyStyleToCurrentElement(action: "fill" | "stroke"): void;
  }
}
