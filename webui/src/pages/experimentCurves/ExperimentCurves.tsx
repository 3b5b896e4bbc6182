/** Several experiments in one picture: the best result so far of each, over trials or over time. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { experimentsQuery, nameOf } from "@/data/experiments";
import { bestSoFarQuery } from "@/data/history";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import { useColours } from "@/ui/chart/colours";
import { Failure } from "@/ui/Failure";
import { formatDuration, formatNumber } from "@/ui/format";
import { useTitle } from "@/ui/useTitle";
import { useUrlState } from "@/ui/useUrlState";
import { curvesOption, stepsOf, type Line } from "./lines";

const text = strings.experimentCurves;
const MOST = 20;

export default function ExperimentCurves() {
  useTitle(text.title);
  const [search] = useSearchParams();
  const [over, setOver] = useUrlState("over", "trials");
  const written = search.get("ids") ?? "";
  const ids = useMemo(
    () => [...new Set(written.split(",").filter((id) => id !== ""))].slice(0, MOST),
    [written],
  );
  const list = useQuery(experimentsQuery);
  const found = useQueries({ queries: ids.map((id) => bestSoFarQuery(id)) });
  const colours = useColours();
  const byTime = over === "time";
  const lines = ids.flatMap((id, at): Line[] => {
    const history = found[at]?.data;
    const item = list.data?.find((each) => each.id === id);
    if (history === undefined || history.points.length === 0) return [];
    return [{ id, name: item === undefined ? id : nameOf(item), steps: stepsOf(history, byTime), history }];
  });
  const option = curvesOption(lines, byTime, colours.series);
  const failed = found.filter((each) => each.isError);
  const loading = found.some((each) => each.isPending);
  return (
    <div className="stack">
      <div className="spread">
        <h1>{text.title}</h1>
        <Link href="/" className="button">
          {strings.navigation.allExperiments}
        </Link>
      </div>
      {failed.map((each, at) => (
        <Failure key={at} error={each.error} onRetry={() => void each.refetch()} />
      ))}
      {ids.length < 2 ? <p className="soft">{text.tooFew}</p> : null}
      {lines.length === 0 ? (
        <p className="soft">{loading ? strings.common.loading : text.none}</p>
      ) : (
        <Chart
          title={text.chart}
          summary={text.summary(lines.length, ids.length - lines.length)}
          option={option}
          height={460}
          table={() => ({
            columns: ["experiment", "sequence", "ended_s", "value"],
            rows: lines.flatMap(({ id, history }) =>
              history.points.map(({ sequence, endedS, value }) => [id, sequence, endedS, value]),
            ),
          })}
          tools={
            <label className="row">
              <span className="soft">{strings.analysis.xAxis}</span>
              <select className="input" value={over} onChange={(event) => setOver(event.target.value)}>
                <option value="trials">{text.overTrials}</option>
                <option value="time">{text.overTime}</option>
              </select>
            </label>
          }
        />
      )}
      {lines.length === 0 ? null : (
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard
        <div className="card scrolls-x" role="region" aria-label={text.table} tabIndex={0}>
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">{text.experiment}</th>
                <th scope="col" className="right">
                  {text.best}
                </th>
                <th scope="col" className="right">
                  {text.trial}
                </th>
                <th scope="col" className="right">
                  {text.after}
                </th>
                <th scope="col" className="right">
                  {text.results}
                </th>
              </tr>
            </thead>
            <tbody>
              {lines.map(({ id, name, history }) => {
                const best = history.points.at(-1);
                return (
                  <tr key={id}>
                    <th scope="row">
                      <Link href={`/experiments/${id}`}>{name}</Link> <code>{id}</code>
                    </th>
                    <td className="number right">{formatNumber(best?.value)}</td>
                    <td className="number right">{formatNumber(best?.sequence)}</td>
                    <td className="number right">{formatDuration(best?.endedS)}</td>
                    <td className="number right">{formatNumber(history.results)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
