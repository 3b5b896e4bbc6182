import { useMemo } from "react";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import { useColours } from "@/ui/chart/colours";
import type { ChartOption } from "@/ui/chart/echarts";
import { NoChart } from "@/ui/chart/Figure";
import { tip } from "@/ui/chart/tip";
import { formatDuration, formatNumber } from "@/ui/format";
import type { Shared } from "./shared";
import { addParameters } from "./tipParameters";
import { trialTable } from "./trialMarks";
import { TrialPlot } from "./TrialPlot";

const MOST_BARS = 60;
const BINS = 40;

/** How long trials take: a bar for each of a few, of many how they are distributed. */
export default function Duration({ shared }: { shared: Shared }) {
  const { columns, selected, metric } = shared;
  const durations = columns.get("duration")?.values;
  const ended = useMemo(
    () => selected.filter((row) => (durations?.[row] ?? NaN) >= 0),
    [selected, durations],
  );
  const sorted = useMemo(
    () => Float64Array.from(ended, (row) => durations?.[row] ?? NaN).sort(),
    [ended, durations],
  );
  const longest = useMemo(() => {
    let found = ended[0] ?? 0;
    for (const row of ended) if ((durations?.[row] ?? 0) > (durations?.[found] ?? 0)) found = row;
    return found;
  }, [ended, durations]);
  if (ended.length === 0)
    return <NoChart title={strings.analysis.duration.histogram} sentence={strings.analysis.duration.none} />;
  const summary = strings.analysis.duration.summary(
    ended.length,
    formatDuration(sorted[Math.floor((sorted.length - 1) / 2)]),
    formatDuration(sorted.at(-1)),
    columns.sequence[longest] ?? 0,
  );
  return (
    <>
      {ended.length <= MOST_BARS ? (
        <Bars shared={shared} rows={ended} summary={summary} />
      ) : (
        <Histogram shared={shared} sorted={sorted} summary={summary} />
      )}
      <TrialPlot
        shared={shared}
        title={strings.analysis.duration.scatter}
        summary={strings.analysis.duration.against(metric.label)}
        x="duration"
        y={metric.name}
        height={320}
      />
    </>
  );
}

function Bars({ shared, rows, summary }: { shared: Shared; rows: Uint32Array; summary: string }) {
  const { columns } = shared;
  const option = useMemo((): ChartOption => {
    const durations = columns.get("duration")?.values;
    return {
      grid: { left: 64, right: 20, top: 10, bottom: 40 },
      xAxis: {
        type: "category",
        data: Array.from(rows, (row) => String(columns.sequence[row] ?? 0)),
        name: strings.analysis.sequence,
        nameLocation: "middle",
        nameGap: 26,
      },
      yAxis: { type: "value", axisLabel: { formatter: (seconds: number) => formatDuration(seconds) } },
      tooltip: {
        formatter: (point) => {
          const one = Array.isArray(point) ? point[0] : point;
          const seconds = typeof one?.value === "number" ? one.value : NaN;
          const sequence = Number(one?.name);
          const box = tip(strings.analysis.trial(sequence), [
            [strings.analysis.durationName, formatDuration(seconds)],
          ]);
          addParameters(box, shared.id, sequence, new Set());
          return box;
        },
      },
      series: { type: "bar", data: Array.from(rows, (row) => durations?.[row] ?? NaN), barMaxWidth: 24 },
    };
  }, [columns, rows, shared.id]);
  return (
    <Chart
      title={strings.analysis.duration.bars}
      summary={summary}
      option={option}
      table={() => trialTable(shared, ["duration"])}
      onPick={({ dataIndex }) => shared.open(rows[dataIndex] ?? 0)}
    />
  );
}

function Histogram({ shared, sorted, summary }: { shared: Shared; sorted: Float64Array; summary: string }) {
  const colours = useColours();
  const bins = useMemo(() => {
    const [low, high] = [sorted[0] ?? 0, sorted.at(-1) ?? 1];
    const width = (high - low) / BINS || 1;
    const counts = new Array<number>(BINS).fill(0);
    for (const value of sorted) {
      const bin = Math.min(BINS - 1, Math.floor((value - low) / width));
      counts[bin] = (counts[bin] ?? 0) + 1;
    }
    return counts.map((count, bin) => ({ from: low + bin * width, to: low + (bin + 1) * width, count }));
  }, [sorted]);
  const option = useMemo((): ChartOption => {
    const label = (bin: number) => `${formatDuration(bins[bin]?.from)} – ${formatDuration(bins[bin]?.to)}`;
    return {
      grid: { left: 64, right: 20, top: 10, bottom: 40 },
      xAxis: {
        type: "category",
        data: bins.map(({ from }) => formatDuration(from)),
        axisTick: { alignWithLabel: true },
      },
      yAxis: { type: "value", name: strings.analysis.duration.trials, nameLocation: "middle", nameGap: 48 },
      tooltip: {
        formatter: (point) => {
          const one = Array.isArray(point) ? point[0] : point;
          return tip(label(one?.dataIndex ?? 0), [
            [strings.analysis.duration.trials, formatNumber(bins[one?.dataIndex ?? 0]?.count)],
          ]);
        },
      },
      series: {
        type: "bar",
        data: bins.map(({ count }) => count),
        barCategoryGap: "8%",
        color: colours.series[0] ?? "",
      },
    };
  }, [bins, colours]);
  return (
    <Chart
      title={strings.analysis.duration.histogram}
      summary={summary}
      option={option}
      height={200}
      table={() => ({
        columns: ["from s", "to s", "trials"],
        rows: bins.map(({ from, to, count }) => [from, to, count]),
      })}
      onPick={({ dataIndex }) => {
        const bin = bins[dataIndex];
        if (bin !== undefined) shared.brush({ duration: { range: [bin.from, bin.to] } });
      }}
    />
  );
}
