import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { answerOf, api } from "@/api/client";
import { objectivesOf, type Profile } from "@/data/experiment";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { formatDuration, formatNumber } from "@/ui/format";
import { StatusBadge } from "@/ui/StatusBadge";
import { ParameterTree } from "@/ui/trial/ParameterTree";
import { asJson } from "@/ui/trial/spelled";
import { useUrlState } from "@/ui/useUrlState";
import { placesOf, ResultPicture } from "./ResultPicture";

const text = strings.overview.top;
const COUNTS = ["10", "20", "30", "50", "100"];
const MODES = ["maximize", "minimize"] as const;

/** The best trials, by their results. Read again when there is another result. */
export function TopTrials({ id, profile }: { id: string; profile: Profile }) {
  const [mode, setMode] = useUrlState("mode", profile.optimizeMode, { replace: true });
  const [count, setCount] = useUrlState("top", "10", { replace: true });
  const limit = COUNTS.includes(count) ? Number(count) : 10;
  const results = profile.counts.SUCCEEDED ?? 0;
  const top = useQuery({
    queryKey: ["static", id, "top", mode, limit, results],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/trials", {
          params: {
            path: { id },
            query: {
              status: ["SUCCEEDED"],
              ...(profile.confirmations === null ? {} : { filter: "source≠confirmation" }),
              sort: "value",
              order: mode === "minimize" ? "asc" : "desc",
              limit,
            },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const trials = top.data?.trials.filter((trial) => trial.finalValue !== null) ?? [];
  return (
    <section className="card stack-small" aria-labelledby="top-title">
      <div className="spread">
        <h2 id="top-title">{text.title}</h2>
        <Link href={`/trials?sort=${mode === "minimize" ? "" : "-"}value`}>{text.all}</Link>
      </div>
      <div className="row">
        <div className="row" role="group" aria-label={text.order}>
          {MODES.map((each) => (
            <button
              key={each}
              type="button"
              className="button small"
              aria-pressed={mode === each}
              onClick={() => setMode(each)}
            >
              {text[each]}
            </button>
          ))}
        </div>
        <label className="row">
          <span className="soft">{text.count}</span>
          <select className="input" value={count} onChange={(event) => setCount(event.target.value)}>
            {COUNTS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      {top.isError ? (
        <Failure error={top.error} onRetry={() => void top.refetch()} />
      ) : top.data === undefined ? (
        <p className="soft">{strings.common.loading}</p>
      ) : trials.length === 0 ? (
        <p className="soft">{text.none}</p>
      ) : (
        <>
          <TopPicture trials={trials} mode={mode} />
          <TopTable trials={trials} metric={objectivesOf(profile.config)[0]?.name ?? text.metric} />
        </>
      )}
    </section>
  );
}

/** Where the top trials are among all, and how close to each other. */
function TopPicture({ trials, mode }: { trials: readonly Trial[]; mode: string }) {
  const [, navigate] = useLocation();
  const values = trials.map(({ finalValue }) => finalValue ?? NaN);
  const end = Math.max(1, ...trials.map(({ sequence }) => sequence));
  const places = placesOf(end, values);
  const [best = NaN, last = NaN] = [values[0], values.at(-1)];
  const summary = text.summary(trials.length, text[mode === "minimize" ? "lowest" : "highest"], [
    formatNumber(best),
    formatNumber(last),
  ]);
  return (
    <ResultPicture places={places} end={end} axis={strings.overview.history.axis} summary={summary}>
      {trials.map((trial) => (
        <circle
          key={trial.id}
          className="opens"
          cx={places.x(trial.sequence)}
          cy={places.y(trial.finalValue ?? NaN)}
          r="4"
          onClick={() => navigate(`/trials/${trial.id}`)}
        >
          <title>{`#${trial.sequence} ${trial.id}: ${formatNumber(trial.finalValue)}`}</title>
        </circle>
      ))}
    </ResultPicture>
  );
}

function TopTable({ trials, metric }: { trials: readonly Trial[]; metric: string }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard
    <div className="scrolls-y tall" role="region" aria-label={text.table} tabIndex={0}>
      <table className="plain">
        <thead>
          <tr>
            <th scope="col" className="right">
              {text.number}
            </th>
            <th scope="col">{text.id}</th>
            <th scope="col" className="right">
              {text.duration}
            </th>
            <th scope="col">{text.status}</th>
            <th scope="col" className="right">
              {metric}
            </th>
          </tr>
        </thead>
        <tbody>
          {trials.map((trial) => (
            <TopRow key={trial.id} trial={trial} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A trial; its number unfolds its parameters. */
function TopRow({ trial }: { trial: Trial }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <tr>
        <td className="number right">
          <Button
            small
            look="plain"
            aria-expanded={open}
            aria-label={text.unfold(trial.sequence)}
            onClick={() => setOpen(!open)}
          >
            <span aria-hidden>{open ? "▾" : "▸"}</span> {trial.sequence}
          </Button>
        </td>
        <td>
          <Link href={`/trials/${trial.id}`} className="mono">
            {trial.id}
          </Link>
          <Copy text={trial.id} />
        </td>
        <td className="number right">{formatDuration(secondsOf(trial.startedAt, trial.endedAt))}</td>
        <td>
          <StatusBadge status={trial.status} />
        </td>
        <td className="number right" title={trial.finalText ?? undefined}>
          {formatNumber(trial.finalValue)}
        </td>
      </tr>
      {open ? (
        <tr>
          <td colSpan={5}>
            <ParameterTree value={trial.parameters} label={text.parameters(trial.sequence)} />
            <Copy text={() => asJson(trial.parameters)} label={text.copyJson} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

function secondsOf(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : (Date.parse(to) - Date.parse(from)) / 1000;
}
