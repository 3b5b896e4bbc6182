import * as core from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import type { Colours } from "./colours";
import { themeOf, type ChartOption } from "./echarts";

core.use([SVGRenderer]);

/** A chart as text of SVG, drawn again without an element on the page. */
export function svgOf(
  option: ChartOption,
  colours: Colours,
  size: { width: number; height: number },
): string {
  const chart = core.init(null, themeOf(colours), { renderer: "svg", ssr: true, ...size });
  try {
    chart.setOption({ ...option, backgroundColor: colours.card });
    return chart.renderToSVGString();
  } finally {
    chart.dispose();
  }
}
