import { useMemo } from "react";
import { strings } from "@/strings";
import { useColours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { formatNumber } from "@/ui/format";
import { paintPoints, type Paint } from "@/ui/plot/paint";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { bestRow } from "./metric";
import { statusOf, type Shared } from "./shared";
import { placesBy } from "./trialMarks";
import { TrialPlot } from "./TrialPlot";

const ENDED_BADLY = new Set(["FAILED", "USER_CANCELED", "SYS_CANCELED", "SUCCEEDED"]); // of those without a result
const STOPPED_EARLY = "EARLY_STOPPED";

/** Each trial's metric, in their order, with the best so far. */
export default function History({ shared }: { shared: Shared }) {
  const colours = useColours();
  const [over, setOver] = useUrlState("over", "trials");
  const [scale, setScale] = useUrlState("scale", "linear");
  const { columns, metric, shown, selected } = shared;
  const x = over === "time" ? "ended" : "sequence";
  const without = useMemo(
    () => shown.filter((row) => Number.isNaN(metric.values[row] ?? NaN)),
    [metric, shown],
  );
  const failed = useMemo(
    () => without.filter((row) => ENDED_BADLY.has(statusOf(columns, row))),
    [columns, without],
  );
  const stopped = useMemo(
    () => without.filter((row) => statusOf(columns, row) === STOPPED_EARLY),
    [columns, without],
  );
  const fruitless = failed.length + stopped.length;
  const fruitlessPaint = useMemo((): Paint => {
    const xs = placesBy(shared, x);
    return (context, scales) => {
      const bottom = new Float64Array(columns.rows).fill(scales.y.of(scales.room.bottom - 5));
      for (const [rows, colour, mark] of [
        [stopped, colours.warn, "ring"],
        [failed, colours.bad, "cross"],
      ] as const) {
        const alpha = rows.length > 500 ? 0.35 : 0.9;
        paintPoints(context, scales, { x: xs, y: bottom, rows, colour, mark, size: 6, alpha });
      }
    };
  }, [shared, columns, x, failed, stopped, colours]);
  const bestPaint = useMemo((): Paint => {
    const steps = bestSoFar(shared, x);
    const xs = placesBy(shared, x);
    return (context, scales) => {
      context.strokeStyle = colours.series[1] ?? "";
      context.lineWidth = 2;
      context.beginPath();
      let last = NaN;
      for (const row of steps) {
        const [left, top] = [scales.x.at(xs[row] ?? NaN), scales.y.at(metric.values[row] ?? NaN)];
        if (Number.isNaN(last)) context.moveTo(left, top);
        else context.lineTo(left, last);
        context.lineTo(left, top);
        last = top;
      }
      if (!Number.isNaN(last)) context.lineTo(scales.room.right, last);
      context.stroke();
    };
  }, [shared, x, metric, colours]);
  const best = useMemo(() => bestRow(metric, selected), [metric, selected]);
  const below = useMemo(
    () => shown.filter((row) => (metric.values[row] ?? NaN) <= 0).length,
    [metric, shown],
  );
  if (metric.count === 0)
    return (
      <NoChart title={strings.analysis.history.title} sentence={strings.analysis.history.none(fruitless)} />
    );
  const [bestText, bestTrial] = [formatNumber(metric.values[best] ?? NaN), columns.sequence[best] ?? 0];
  return (
    <>
      <TrialPlot
        shared={shared}
        title={strings.analysis.history.title}
        summary={strings.analysis.history.summary(metric.count, bestText, bestTrial, fruitless)}
        x={x}
        y={metric.name}
        log={{ y: scale === "log" }}
        under={fruitlessPaint}
        over={bestPaint}
        tools={
          <>
            <Choice
              label={strings.analysis.xAxis}
              value={over}
              onChange={setOver}
              options={[
                ["trials", strings.analysis.history.overTrials],
                ["time", strings.analysis.history.overTime],
              ]}
            />
            <Choice
              label={strings.analysis.scale}
              value={scale}
              onChange={setScale}
              options={[
                ["linear", strings.analysis.linear],
                ["log", strings.analysis.log],
              ]}
            />
          </>
        }
      />
      {scale === "log" && below > 0 ? (
        <p className="note warn">{strings.analysis.history.notShown(below)}</p>
      ) : null}
      <p className="soft hint">{strings.chart.hint}</p>
    </>
  );
}

/** The rows that were better than all before them. */
function bestSoFar(shared: Shared, x: string): number[] {
  const { metric, shown, columns } = shared;
  const places = x === "sequence" ? columns.sequence : placesBy(shared, x);
  const ordered = [...shown].filter((row) => !Number.isNaN(metric.values[row] ?? NaN));
  if (x !== "sequence") ordered.sort((a, b) => (places[a] ?? 0) - (places[b] ?? 0));
  const found: number[] = [];
  let best = NaN;
  for (const row of ordered) {
    const value = metric.values[row] ?? NaN;
    if (!Number.isNaN(best) && (metric.minimise ? value >= best : value <= best)) continue;
    best = value;
    found.push(row);
  }
  return found;
}
