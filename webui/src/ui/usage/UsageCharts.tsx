import { useMemo } from "react";
import type { UsageSample } from "@/data/usage";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import type { ChartOption } from "@/ui/chart/echarts";
import { formatBytes, formatInstant, formatNumber } from "@/ui/format";
import { highest, seriesOf } from "./series";
import "./usage.css";

const text = strings.usage;

interface Line {
  name: string;
  points: [number, number][];
}

/** CPUs, memory and, where there are any, GPUs over time. `note`: what was measured. */
export function UsageCharts({ samples, note }: { samples: readonly UsageSample[]; note: string }) {
  const series = useMemo(() => seriesOf(samples), [samples]);
  const gpus = useMemo(
    () => [...series.gpus].map(([index, points]) => ({ name: text.gpu(index), points })),
    [series],
  );
  const cpus = useMemo(() => [{ name: text.cpus, points: series.cpus }], [series]);
  const memory = useMemo(() => [{ name: text.memory, points: series.memory }], [series]);
  if (samples.length === 0) return <p className="soft">{text.none}</p>;
  const summary = (points: [number, number][], format: (value: number) => string) =>
    text.summary(format(points.at(-1)?.[1] ?? 0), format(highest(points)));
  return (
    <>
      <div className="usage-charts">
        <Lines
          title={text.cpus}
          lines={cpus}
          format={formatNumber}
          summary={summary(series.cpus, formatNumber)}
        />
        <Lines
          title={text.memory}
          lines={memory}
          format={formatBytes}
          summary={summary(series.memory, formatBytes)}
        />
        {gpus.length === 0 ? null : (
          <Lines
            title={text.gpus}
            lines={gpus}
            format={formatNumber}
            summary={text.gpuSummary(formatNumber(Math.max(...gpus.map(({ points }) => highest(points)))))}
          />
        )}
      </div>
      <p className="soft">{note}</p>
    </>
  );
}

interface LinesProps {
  title: string;
  lines: readonly Line[];
  format: (value: number) => string;
  summary: string;
}

function Lines({ title, lines, format, summary }: LinesProps) {
  const option = useMemo(
    (): ChartOption => ({
      grid: { left: 70, right: 16, top: lines.length > 1 ? 30 : 10, bottom: 26 },
      legend: { show: lines.length > 1, top: 0 },
      xAxis: { type: "time" },
      yAxis: { type: "value", min: 0, splitNumber: 3, axisLabel: { formatter: format } },
      tooltip: {
        trigger: "axis",
        renderMode: "richText",
        valueFormatter: (value) => format(Number(value)),
      },
      series: lines.map(({ name, points }) => ({
        type: "line" as const,
        name,
        data: points,
        sampling: "lttb" as const,
        showSymbol: points.length < 3,
      })),
    }),
    [lines, format],
  );
  const table = () => ({
    columns: [text.time, title],
    rows: lines.flatMap(({ points }) =>
      points.map(([at, value]): [string, string] => [
        formatInstant(new Date(at).toISOString()),
        format(value),
      ]),
    ),
  });
  return <Chart title={title} summary={summary} option={option} height={200} table={table} />;
}
