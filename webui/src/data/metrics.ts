/** The intermediate results of a trial, read on from where the page has come to. */
import { queryOptions, type QueryClient, type QueryKey } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { parsedMetric } from "@/ui/trial/parsedMetric";
import { isRecord } from "@/ui/trial/space";

export const DEFAULT_KEY = "default";
const PAGE = 10_000;

export interface CurvePoint {
  readonly step: number;
  /** By key of metrics that are objects; `default` is what tuner and assessor look at. */
  readonly values: Readonly<Record<string, number>>;
}

/** What the latest attempt has reported. */
export interface Curve {
  readonly attempt: number;
  readonly points: readonly CurvePoint[];
  /** The number of the last metric that is in it. */
  readonly after: number;
}

const NOTHING: Curve = { attempt: 0, points: [], after: 0 };

/** `ended`: nothing more comes, so that it is not read again with every change of the experiment. */
export const curveQuery = (id: string, trialId: string, ended = false) =>
  queryOptions({
    queryKey: [ended ? "static" : "live", id, "curve", trialId],
    queryFn: ({ client, queryKey, signal }) => readOn(client, queryKey, id, trialId, signal),
  });

async function readOn(
  client: QueryClient,
  queryKey: QueryKey,
  id: string,
  trialId: string,
  signal: AbortSignal,
): Promise<Curve> {
  let curve = client.getQueryData<Curve>(queryKey) ?? NOTHING;
  for (;;) {
    const page = await answerOf(
      api.GET("/api/v1/experiments/{id}/trials/{trialId}/metrics", {
        params: { path: { id, trialId }, query: { type: "PERIODICAL", after: curve.after, limit: PAGE } },
        signal,
      }),
    );
    curve = longer(curve, page.metrics);
    if (page.nextAfter === null) return curve;
  }
}

function longer(curve: Curve, metrics: readonly Schemas["Metric"][]): Curve {
  const last = metrics.at(-1);
  if (last === undefined) return curve;
  const attempt = metrics.reduce((latest, metric) => Math.max(latest, metric.attempt), curve.attempt);
  const kept = attempt === curve.attempt ? curve.points : [];
  const more = metrics
    .filter((metric) => metric.attempt === attempt)
    .map((metric) => ({ step: metric.sequence, values: valuesOf(metric) }));
  return { attempt, points: [...kept, ...more], after: last.number };
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
    values.length,
    formatNumber(first),
    formatNumber(last),
    formatNumber(least),
    formatNumber(most),
  );
}
