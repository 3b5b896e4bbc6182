/** The intermediate results of a trial: at first a curve of few points, then what is new behind it. */
import { queryOptions, type QueryClient, type QueryKey } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { parsedMetric } from "@/ui/trial/parsedMetric";
import { isRecord } from "@/ui/trial/space";

export const DEFAULT_KEY = "default";
const PAGE = 10_000;
const POINTS = 2_000; // of a curve as it is read at first
const MOST_POINTS = 4_000; // a longer one is read again with fewer

export interface CurvePoint {
  readonly step: number;
  /** By key of metrics that are objects; `default` is what tuner and assessor look at. */
  readonly values: Readonly<Record<string, number>>;
}

/** What the latest attempt has reported. */
export interface Curve {
  readonly attempt: number;
  /** Of very many results these are few, which keep the peaks. */
  readonly points: readonly CurvePoint[];
  /** How many results there are. */
  readonly total: number;
  /** The number of the last metric that is in it. */
  readonly after: number;
}

export const NOTHING: Curve = { attempt: 0, points: [], total: 0, after: 0 };

/**
 * `ended`: nothing more comes, so that it is not read again with every change of the experiment.
 * A further attempt may begin before the end of the last one's results, so the whole curve is read again.
 */
export const curveQuery = (id: string, trial: Pick<Schemas["Trial"], "id" | "attempt">, ended = false) =>
  queryOptions({
    queryKey: [ended ? "static" : "live", id, "curve", trial.id, trial.attempt],
    queryFn: ({ client, queryKey, signal }) => readOn(client, queryKey, id, trial.id, signal),
  });

async function readOn(
  client: QueryClient,
  queryKey: QueryKey,
  id: string,
  trialId: string,
  signal: AbortSignal,
): Promise<Curve> {
  const path = { id, trialId };
  const curve = client.getQueryData<Curve>(queryKey);
  if (curve !== undefined && curve.points.length <= MOST_POINTS) {
    const page = await answerOf(
      api.GET("/api/v1/experiments/{id}/trials/{trialId}/metrics", {
        params: { path, query: { type: "PERIODICAL", after: curve.after, limit: PAGE } },
        signal,
      }),
    );
    if (page.nextAfter === null) return longer(curve, page.metrics);
  }
  const whole = await answerOf(
    api.GET("/api/v1/experiments/{id}/trials/{trialId}/curve", {
      params: { path, query: { points: POINTS } },
      signal,
    }),
  );
  return {
    attempt: whole.attempt,
    points: whole.metrics.map(pointOf),
    total: whole.total,
    after: whole.after,
  };
}

/** The curve with what was reported behind it; a later attempt begins another one. */
export function longer(curve: Curve, metrics: readonly Schemas["Metric"][]): Curve {
  const last = metrics.at(-1);
  if (last === undefined) return curve;
  const attempt = metrics.reduce((latest, metric) => Math.max(latest, metric.attempt), curve.attempt);
  const kept = attempt === curve.attempt ? curve : NOTHING;
  const more = metrics.filter((metric) => metric.attempt === attempt).map(pointOf);
  return {
    attempt,
    points: [...kept.points, ...more],
    total: kept.total + more.length,
    after: last.number,
  };
}

/** How many results a chart of these values stands for. */
export function countOf(curve: Curve, values: readonly unknown[]): number {
  return curve.total > curve.points.length ? curve.total : values.length;
}

function pointOf(metric: Schemas["Metric"]): CurvePoint {
  return { step: metric.sequence, values: valuesOf(metric) };
}

function valuesOf({ value, text }: Schemas["Metric"]): Record<string, number> {
  const values: Record<string, number> = {};
  const metric = text.startsWith("{") ? parsedMetric(text) : undefined;
  for (const [key, item] of Object.entries(isRecord(metric) ? metric : {}))
    if (typeof item === "number") values[key] = item;
  if (value !== null) values[DEFAULT_KEY] = value;
  return values;
}

/** The keys that any point has, `default` first. */
export function keysOf(curves: readonly Curve[]): string[] {
  const keys = new Set<string>();
  for (const curve of curves) for (const point of curve.points) for (const key in point.values) keys.add(key);
  return [...keys].sort(
    (a, b) => Number(b === DEFAULT_KEY) - Number(a === DEFAULT_KEY) || a.localeCompare(b),
  );
}

/** In one sentence what the points say. */
export function summaryOf(curve: Curve, key: string): string | null {
  const values = curve.points.flatMap((point) => point.values[key] ?? []);
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return null;
  const least = values.reduce((a, b) => Math.min(a, b));
  const most = values.reduce((a, b) => Math.max(a, b));
  return strings.trials.curve.summary(
    countOf(curve, values),
    formatNumber(first),
    formatNumber(last),
    formatNumber(least),
    formatNumber(most),
  );
}
