/** Who came to which rung, and what became of them there: as the server has drawn it from all trials. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { request } from "@/api/client";
import { categoryText, unpack } from "@/data/packed";
import { formatNumber } from "@/ui/format";

export type Fate = "promoted" | "stopped" | "running" | "left";

export interface Rung extends Readonly<Record<Fate | "reached", number>> {
  /** The budget or the number of reports; of many steps a range. */
  from: number;
  to: number;
  /** The worst that went on from it. */
  cut: { sequence: number; value: number } | null;
}

export interface Verdict {
  sequence: number;
  reason: string;
  /** Sequences of trials that beat it. */
  better: readonly number[];
}

interface Header {
  by: "budget" | "step";
  minimise: boolean;
  total: number;
  lines: number;
  rungs: readonly Rung[];
  verdicts: readonly Verdict[];
}

/** A point for each trial at each rung that it came to, rung by rung, and there by sequence. */
export interface Rungs extends Omit<Header, "verdicts"> {
  rung: ArrayLike<number>;
  sequence: ArrayLike<number>;
  value: ArrayLike<number>;
  fates: readonly Fate[];
  /** The point of the same configuration at its next rung, and at the one before; -1: none. */
  next: Int32Array;
  before: Int32Array;
  /** By sequence. */
  verdicts: ReadonlyMap<number, Verdict>;
}

export const LINES = 2000;

export const rungsQuery = (id: string, filter: string) =>
  queryOptions({
    queryKey: ["live", id, "rungs", filter],
    queryFn: async ({ signal }): Promise<Rungs> => {
      const search = new URLSearchParams({ filter, lines: String(LINES) });
      const path = `/api/v1/experiments/${encodeURIComponent(id)}/analysis/rungs?${search}`;
      return rungsOf(await (await request(path, { signal })).arrayBuffer());
    },
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });

export function rungsOf(answer: ArrayBuffer): Rungs {
  const { header, columns } = unpack<Header>(answer);
  const column = (name: string): ArrayLike<number> => columns.get(name)?.values ?? [];
  const sequence = column("sequence");
  const next = Int32Array.from(column("next"), (point) => (point < sequence.length ? point : -1));
  const before = new Int32Array(sequence.length).fill(-1);
  next.forEach((after, point) => {
    if (after >= 0) before[after] = point;
  });
  const fates = (columns.get("fate")?.categories ?? []).map(categoryText) as Fate[];
  return {
    ...header,
    rung: column("rung"),
    sequence,
    value: column("value"),
    fates: Array.from(column("fate"), (code) => fates[code] ?? "left"),
    next,
    before,
    verdicts: new Map(header.verdicts.map((verdict) => [verdict.sequence, verdict])),
  };
}

export const nameOf = ({ from, to }: Pick<Rung, "from" | "to">): string =>
  from === to ? formatNumber(to) : `${formatNumber(from)}–${formatNumber(to)}`;

/** What is drawn alike. At the highest budget nobody is left behind. */
export type Look = Fate | "completed";
export const lookOf = (
  { fates, rung, rungs, by }: Pick<Rungs, "fates" | "rung" | "rungs" | "by">,
  point: number,
): Look => {
  const fate = fates[point] ?? "left";
  return fate === "left" && by === "budget" && rung[point] === rungs.length - 1 ? "completed" : fate;
};

const WIDEST = 0.76; // of a rung's column
const FULL_FROM = 40; // points

/** Where the points are: in the column of their rung, the older trials left of the younger ones. */
export function acrossOf({ rung, rungs }: Pick<Rungs, "rung" | "rungs">): Float64Array {
  const counts = new Uint32Array(rungs.length);
  const places = Float64Array.from(rung, (at) => {
    const place = counts[at] ?? 0;
    counts[at] = place + 1;
    return place;
  });
  return places.map((place, point) => {
    const at = rung[point] ?? 0;
    const count = counts[at] ?? 1;
    return at + WIDEST * Math.min(1, count / FULL_FROM) * ((place + 0.5) / count - 0.5);
  });
}

/** The points of the same configuration, from its first rung on. */
export function chainOf({ next, before }: Pick<Rungs, "next" | "before">, point: number): number[] {
  let first = point;
  while ((before[first] ?? -1) >= 0) first = before[first] ?? -1;
  const chain: number[] = [];
  for (let at = first; at >= 0; at = next[at] ?? -1) chain.push(at);
  return chain;
}

/** The points, at the same rung, of the trials that this one was worse than; as far as they are drawn. */
export function beatenBy(rungs: Rungs, point: number): number[] {
  const { sequence, rung, rungs: all, fates } = rungs;
  const better = new Set(rungs.verdicts.get(sequence[point] ?? -1)?.better ?? []);
  const cut = all[rung[point] ?? 0]?.cut;
  if (fates[point] === "left" && cut !== null && cut !== undefined && isWorse(rungs, point, cut.value))
    better.add(cut.sequence);
  const found: number[] = [];
  for (let other = 0; other < sequence.length; other += 1)
    if (rung[other] === rung[point] && better.has(sequence[other] ?? -1)) found.push(other);
  return found;
}

/** Whether the point's value is worse than this one; false without a value. */
export function isWorse({ value, minimise }: Rungs, point: number, than: number): boolean {
  const own = value[point] ?? NaN;
  return minimise ? own > than : own < than;
}
