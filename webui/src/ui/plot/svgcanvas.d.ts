/** The part of svgcanvas that the dashboard uses; the package has no types of its own. */
declare module "svgcanvas" {
  export const Context: new (
    width: number,
    height: number,
  ) => CanvasRenderingContext2D & {
    getSerializedSvg(): string;
  };
}
