import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { countOf, curveQuery, DEFAULT_KEY, keysOf, type Curve } from "@/data/metrics";
import { LIVE_STATUSES } from "@/data/trials";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import { useColours } from "@/ui/chart/colours";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { useUrlState } from "@/ui/useUrlState";
import { curveOption } from "./curveOption";
import { legsSentence, marksOf } from "./legs";

const text = strings.trial.curve;

/** The intermediate results of the latest attempt, as they come, and where its legs begin. */
export function CurveCard({ id, trial }: { id: string; trial: Schemas["TrialDetail"] }) {
  const curve = useQuery({ ...curveQuery(id, trial), placeholderData: (before) => before });
  if (curve.data !== undefined && curve.data.points.length > 0)
    return <Line curve={curve.data} trial={trial} />;
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

function Line({ curve, trial }: { curve: Curve; trial: Schemas["TrialDetail"] }) {
  const colours = useColours();
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
  const { legs, firstParameters } = trial;
  const marks = useMemo(() => marksOf(legs, firstParameters), [legs, firstParameters]);
  const option = useMemo(() => curveOption(points, key, marks, colours), [points, key, marks, colours]);
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
      summary={[summary, legsSentence(marks)].filter((sentence) => sentence !== null).join(" ")}
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
