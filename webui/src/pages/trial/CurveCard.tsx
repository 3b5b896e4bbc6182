import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { countOf, curveQuery, DEFAULT_KEY, keysOf, type Curve } from "@/data/metrics";
import { LIVE_STATUSES } from "@/data/trials";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import type { ChartOption } from "@/ui/chart/echarts";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { useUrlState } from "@/ui/useUrlState";

const text = strings.trial.curve;

/** The intermediate results of the latest attempt, as they come. */
export function CurveCard({ id, trial }: { id: string; trial: Schemas["TrialDetail"] }) {
  const curve = useQuery(curveQuery(id, trial.id));
  if (curve.data !== undefined && curve.data.points.length > 0) return <Line curve={curve.data} />;
  return (
    <section className="card stack-small" aria-label={text.title}>
      <h3>{text.title}</h3>
      {curve.isError ? (
        <Failure error={curve.error} onRetry={() => void curve.refetch()} />
      ) : (
        <p className="soft">
          {curve.data === undefined
            ? strings.common.loading
            : LIVE_STATUSES.includes(trial.status)
              ? text.noneYet
              : text.none}
        </p>
      )}
    </section>
  );
}

function Line({ curve }: { curve: Curve }) {
  const [wanted, setWanted] = useUrlState("key", DEFAULT_KEY, { replace: true });
  const keys = useMemo(() => keysOf([curve]), [curve]);
  const key = keys.includes(wanted) ? wanted : (keys[0] ?? DEFAULT_KEY);
  const points = useMemo(
    () =>
      curve.points.flatMap(({ step, values }): [number, number][] => {
        const value = values[key];
        return value === undefined ? [] : [[step, value]];
      }),
    [curve, key],
  );
  const option = useMemo(
    (): ChartOption => ({
      grid: { left: 64, right: 20, top: 14, bottom: 30 },
      xAxis: { type: "value", min: "dataMin", max: "dataMax", minInterval: 1 },
      yAxis: { type: "value", scale: true, axisLabel: { formatter: (value: number) => formatNumber(value) } },
      tooltip: {
        trigger: "axis",
        renderMode: "richText",
        valueFormatter: (value) => formatNumber(Number(value)),
      },
      series: {
        type: "line",
        name: key,
        data: points,
        sampling: "lttb",
        showSymbol: points.length <= 60,
        symbolSize: 5,
      },
    }),
    [points, key],
  );
  const values = points.map(([, value]) => value);
  const summary =
    values.length === 0
      ? text.noNumbers
      : text.summary(
          formatNumber(countOf(curve, values)),
          formatNumber(values.at(-1)),
          formatNumber(values.reduce((a, b) => Math.min(a, b))),
          formatNumber(values.reduce((a, b) => Math.max(a, b))),
        );
  return (
    <Chart
      title={curve.attempt > 1 ? `${text.title} · ${text.attempt(curve.attempt)}` : text.title}
      summary={summary}
      option={option}
      height={200}
      table={() => ({ columns: [text.step, key], rows: points })}
      tools={
        keys.length < 2 ? null : (
          <label className="row">
            <span className="soft">{text.key}</span>
            <select className="input" value={key} onChange={(event) => setWanted(event.target.value)}>
              {keys.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        )
      }
    />
  );
}
