import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { answerOf, api, type Schemas } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { placesOf, ResultPicture } from "./ResultPicture";

const text = strings.overview.history;
const POINTS = 200;

type History = Schemas["History"];

/** Read again when the best trial is another: nothing else changes the line but its length. */
function useHistory(id: string, profile: Profile) {
  const best = profile.bestTrial;
  return useQuery({
    queryKey: ["static", id, "history", POINTS, best?.trialId, best?.value],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/analysis/history", {
          params: { path: { id }, query: { points: POINTS } },
          signal,
        }),
      ),
    enabled: best !== null,
    placeholderData: keepPreviousData,
  });
}

/** How the best result came about. */
export function HistoryCard({ id, profile }: { id: string; profile: Profile }) {
  const history = useHistory(id, profile);
  const created = Object.values(profile.counts).reduce((sum, count) => sum + count, 0);
  return (
    <section className="card stack-small" aria-labelledby="history-title">
      <div className="spread">
        <h2 id="history-title">{text.title}</h2>
        <Link href="/analysis">{text.all}</Link>
      </div>
      {history.isError ? (
        <Failure error={history.error} onRetry={() => void history.refetch()} />
      ) : profile.bestTrial === null ? (
        <p className="soft">{text.none}</p>
      ) : history.data === undefined ? (
        <div className="history-place soft">{strings.common.loading}</div>
      ) : (
        <Chart history={history.data} last={created - 1} />
      )}
    </section>
  );
}

/** A line of steps: each value holds until a better one. */
function Chart({ history, last }: { history: History; last: number }) {
  const { points } = history;
  const [first, best] = [points[0], points.at(-1)];
  if (first === undefined || best === undefined) return <p className="soft">{text.none}</p>;
  const end = Math.max(last, best.sequence, 1);
  const places = placesOf(
    end,
    points.map(({ value }) => value),
  );
  const { x, y } = places;
  const path = points
    .map(({ sequence, value }, at) =>
      at === 0
        ? `M${x(sequence).toFixed(1)} ${y(value).toFixed(1)}`
        : `H${x(sequence).toFixed(1)}V${y(value).toFixed(1)}`,
    )
    .join("");
  const summary = text.summary(
    formatNumber(history.results),
    Math.max(0, history.improvements - 1),
    formatNumber(best.value),
    best.sequence,
  );
  return (
    <ResultPicture places={places} end={end} axis={text.axis} summary={summary}>
      <path className="line" d={`${path}H${x(end).toFixed(1)}`} />
      {points.map(({ trialId, sequence, value }) => (
        <circle key={trialId} cx={x(sequence)} cy={y(value)} r="3">
          <title>{`#${sequence}: ${formatNumber(value)}`}</title>
        </circle>
      ))}
    </ResultPicture>
  );
}
