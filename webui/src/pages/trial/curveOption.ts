/** The curve of a trial as a chart, with a line where each of its legs begins. */
import { strings } from "@/strings";
import type { Colours } from "@/ui/chart/colours";
import type { ChartOption } from "@/ui/chart/echarts";
import { tip } from "@/ui/chart/tip";
import { formatNumber } from "@/ui/format";
import { legAt, type LegMark } from "./legs";

const text = strings.trial.curve;
const FEW_POINTS = 60; // up to so many are marked
/** Least distances between legs, as shares of the width, at which a label fits: with words, or a number only. */
const ROOM = { words: 0.15, number: 0.05 } as const;

export function curveOption(
  points: readonly (readonly [number, number])[],
  key: string,
  marks: readonly LegMark[],
  colours: Colours,
): ChartOption {
  const last = marks.at(-1)?.reports ?? 0;
  const span = Math.max(last, points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0);
  const gaps = marks.slice(1).map(({ reports }, at) => reports - (marks[at]?.reports ?? 0));
  const nearest = gaps.reduce((a, b) => Math.min(a, b), span);
  const label = (leg: number) => (nearest < span * ROOM.words ? String(leg) : strings.trial.legs.name(leg));
  return {
    grid: { left: 64, right: 20, top: marks.length === 0 ? 14 : 26, bottom: 30 },
    xAxis: { type: "value", min: "dataMin", max: ({ max }) => Math.max(max, last), minInterval: 1 },
    yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => formatNumber(value) } },
    tooltip: {
      trigger: "axis",
      formatter: (hovered) => {
        const [one] = Array.isArray(hovered) ? hovered : [hovered];
        const [step, value] = points[one?.dataIndex ?? 0] ?? [0, NaN];
        const leg = legAt(marks, step);
        return tip(`${text.step} ${formatNumber(step)}`, [
          [key, formatNumber(value)],
          ...(leg === undefined ? [] : [[strings.trial.legs.name(leg.leg), leg.changed] as const]),
        ]);
      },
    },
    series: {
      type: "line",
      name: key,
      data: points.map((point) => [...point]),
      sampling: "lttb",
      showSymbol: points.length <= FEW_POINTS,
      symbolSize: 5,
      markLine: {
        silent: true,
        symbol: "none",
        lineStyle: { color: colours.soft, type: "dashed", width: 1 },
        label: { show: nearest >= span * ROOM.number, color: colours.soft, distance: 4 },
        data: marks.map(({ leg, reports }) => ({ xAxis: reports, label: { formatter: label(leg) } })),
      },
    },
  };
}
