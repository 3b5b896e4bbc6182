/** Lines of the best result so far, for a chart. Pure. */
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import type { ChartOption } from "@/ui/chart/echarts";
import { tip } from "@/ui/chart/tip";
import { formatDuration, formatNumber } from "@/ui/format";

type History = Schemas["History"];
type Step = readonly [x: number, value: number];

export interface Line {
  readonly id: string;
  readonly name: string;
  readonly steps: readonly Step[];
  readonly history: History;
}

/** Each improvement by its trial number or by the seconds since the experiment began; the best goes on to the end. */
export function stepsOf({ points, lastSequence }: History, byTime: boolean): Step[] {
  const steps = points.flatMap(({ sequence, endedS, value }): Step[] => {
    const x = byTime ? endedS : sequence;
    return x === null ? [] : [[x, value]];
  });
  const best = steps.at(-1);
  if (!byTime && best !== undefined && lastSequence !== null && lastSequence > best[0])
    steps.push([lastSequence, best[1]]);
  return byTime ? steps.sort((a, b) => a[0] - b[0]) : steps;
}

export function curvesOption(
  lines: readonly Line[],
  byTime: boolean,
  colours: readonly string[],
): ChartOption {
  return {
    legend: { top: 0, type: "scroll" },
    grid: { left: 70, right: 24, top: 36, bottom: 44 },
    xAxis: {
      type: "value",
      name: byTime ? strings.experimentCurves.seconds : strings.analysis.sequence,
      nameLocation: "middle",
      nameGap: 28,
      axisLabel: { formatter: (at: number) => (byTime ? formatDuration(at) : formatNumber(at)) },
    },
    yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => formatNumber(value) } },
    tooltip: {
      formatter: (point) => {
        const one = Array.isArray(point) ? point[0] : point;
        const [x = NaN, value = NaN] = Array.isArray(one?.value) ? one.value.map(Number) : [];
        return tip(one?.seriesName ?? "", [
          [
            byTime ? strings.experimentCurves.seconds : strings.analysis.sequence,
            byTime ? formatDuration(x) : formatNumber(x),
          ],
          [strings.experimentCurves.best, formatNumber(value)],
        ]);
      },
    },
    series: lines.map(({ id, name, steps }, at) => ({
      type: "line",
      name: lines.some((other) => other.id !== id && other.name === name) ? `${name} (${id})` : name,
      step: "end",
      symbolSize: 6,
      data: steps.map((step) => [...step]),
      color: colours[at % colours.length] ?? "",
    })),
  };
}
