/** Intermediate results of one or several trials in one chart. */
import { useMemo, useState } from "react";
import { DEFAULT_KEY, keysOf, type Curve } from "@/data/metrics";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import { useColours } from "@/ui/chart/colours";
import type { ChartOption } from "@/ui/chart/echarts";
import { tip } from "@/ui/chart/tip";
import { formatNumber } from "@/ui/format";
import { isRecord } from "./space";

const text = strings.trials.curve;

/** The dashes of lines beyond the eight colours. */
const DASHES = ["solid", "dashed", "dotted"] as const;
const FEW_POINTS = 40; // up to so many are marked

export interface Line {
  name: string;
  curve: Curve;
}

/** How the line at this place is drawn, to be told by other parts of the page too. */
export function lineLook(
  at: number,
  colours: readonly string[],
): { color: string; type: "solid" | "dashed" | "dotted" } {
  const color = colours[at % colours.length] ?? "";
  return { color, type: DASHES[Math.floor(at / colours.length) % DASHES.length] ?? "solid" };
}

interface CurveChartProps {
  title: string;
  summary: string;
  /** Memoised by the caller. */
  lines: readonly Line[];
  height?: 200 | 320 | 460;
}

export function CurveChart({ title, summary, lines, height = 320 }: CurveChartProps) {
  const { series: colours } = useColours();
  const keys = useMemo(() => keysOf(lines.map((line) => line.curve)), [lines]);
  const [chosen, setChosen] = useState(DEFAULT_KEY);
  const key = keys.includes(chosen) ? chosen : (keys[0] ?? DEFAULT_KEY);
  const option = useMemo(() => optionOf(lines, key, colours), [lines, key, colours]);
  const table = () => ({
    columns: [strings.compare.name, text.step, ...keys],
    rows: lines.flatMap(({ name, curve }) =>
      curve.points.map((point) => [name, point.step, ...keys.map((one) => point.values[one] ?? null)]),
    ),
  });
  const tools =
    keys.length < 2 ? undefined : (
      <label className="row">
        {text.key}
        <select className="input" value={key} onChange={(event) => setChosen(event.target.value)}>
          {keys.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
    );
  return (
    <Chart title={title} summary={summary} option={option} table={table} tools={tools} height={height} />
  );
}

function optionOf(lines: readonly Line[], key: string, colours: readonly string[]): ChartOption {
  return {
    xAxis: {
      type: "value",
      name: text.step,
      nameLocation: "middle",
      nameGap: 26,
      min: "dataMin",
      max: "dataMax",
    },
    yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => formatNumber(value) } },
    tooltip: { trigger: "axis", formatter: (hovered: unknown) => tipOf(hovered) },
    dataZoom: [{ type: "inside", filterMode: "none" }],
    series: lines.map(({ name, curve }, at) => {
      const { color, type } = lineLook(at, colours);
      const data = curve.points.flatMap(({ step, values }) => {
        const value = values[key];
        return value === undefined ? [] : [[step, value]];
      });
      return {
        type: "line" as const,
        name,
        data,
        symbol: type === "solid" ? ("circle" as const) : ("diamond" as const),
        symbolSize: 5,
        showSymbol: data.length <= FEW_POINTS,
        sampling: "lttb" as const,
        itemStyle: { color },
        lineStyle: { color, type, width: 1.8 },
      };
    }),
  };
}

function tipOf(hovered: unknown): HTMLElement {
  const points = (Array.isArray(hovered) ? hovered : [hovered]).filter(isRecord);
  const rows = points.map((point): [string, string] => [
    String(point.seriesName),
    formatNumber(valueAt(point, 1)),
  ]);
  return tip(`${text.step} ${formatNumber(valueAt(points[0] ?? {}, 0))}`, rows);
}

function valueAt(point: Readonly<Record<string, unknown>>, at: number): number | undefined {
  const value: unknown = Array.isArray(point.value) ? point.value[at] : undefined;
  return typeof value === "number" ? value : undefined;
}
