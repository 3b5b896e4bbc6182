/** What is used of ECharts: only this is in the bundle. */
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import type {
  BarSeriesOption,
  CustomSeriesOption,
  LineSeriesOption,
  ScatterSeriesOption,
} from "echarts/charts";
import {
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
} from "echarts/components";
import type {
  DataZoomComponentOption,
  GridComponentOption,
  LegendComponentOption,
  TooltipComponentOption,
} from "echarts/components";
import * as core from "echarts/core";
import type { ComposeOption } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import type { Colours } from "./colours";

core.use([
  BarChart,
  CustomChart,
  LineChart,
  ScatterChart,
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  CanvasRenderer,
]);

export type ChartOption = ComposeOption<
  | BarSeriesOption
  | CustomSeriesOption
  | LineSeriesOption
  | ScatterSeriesOption
  | DataZoomComponentOption
  | GridComponentOption
  | LegendComponentOption
  | TooltipComponentOption
>;
export type EChart = core.ECharts;
export type { ECElementEvent as ChartEvent } from "echarts/core";

export const init = (place: HTMLElement, colours: Colours): EChart =>
  core.init(place, themeOf(colours), { renderer: "canvas" });

/** A theme of ECharts in the colours of the page; nothing moves by itself. */
export function themeOf(colours: Colours): object {
  const text = { color: colours.soft, fontFamily: colours.sans, fontSize: 12 };
  const axis = {
    axisLine: { show: true, lineStyle: { color: colours.strongLine } },
    axisTick: { show: true, lineStyle: { color: colours.strongLine } },
    axisLabel: text,
    nameTextStyle: text,
    splitLine: { lineStyle: { color: colours.line } },
    minorSplitLine: { show: false },
  };
  return {
    animation: false,
    color: colours.series,
    textStyle: text,
    grid: { left: 64, right: 20, top: 20, bottom: 44, outerBoundsMode: "none" },
    categoryAxis: { ...axis, splitLine: { show: false } },
    valueAxis: axis,
    logAxis: axis,
    timeAxis: axis,
    legend: { textStyle: { ...text, color: colours.ink }, inactiveColor: colours.strongLine },
    tooltip: {
      backgroundColor: colours.card,
      borderColor: colours.line,
      textStyle: { ...text, color: colours.ink },
      confine: true,
      transitionDuration: 0,
      axisPointer: { lineStyle: { color: colours.strongLine }, crossStyle: { color: colours.strongLine } },
    },
  };
}
