/** The lineage of an experiment as a picture: a lane for each trial, with its legs over time. */
import type { Schemas } from "@/api/client";
import type { Leg, Lineage } from "@/data/lineage";
import { flat } from "@/ui/trial/flat";
import { same } from "@/ui/trial/space";

type Trial = Schemas["RelatedTrial"];
type Fork = Schemas["Fork"];

/** A leg of a trial. Times are in seconds since the start of the experiment. */
export interface Stretch {
  trial: Trial;
  lane: number;
  leg: number;
  from: number;
  to: number;
  parameters: ReadonlyMap<string, unknown>;
  /** The number of its first result. */
  reports: number;
  /** The checkpoint from which it continues; null: the trial began from the beginning. */
  origin: Origin | null;
  reason: string;
}

export interface Origin {
  sequence: number;
  number: number;
  step: number | null;
  fork: boolean;
}

/** Leads from where a trial has saved a checkpoint to the leg of another trial that continues from it. */
export interface Arrow {
  lane: number;
  at: number;
  heir: Stretch;
}

export interface Picture {
  /** From the bottom up, so that the trial with the lowest number is at the top. */
  lanes: readonly Trial[];
  stretches: readonly Stretch[];
  arrows: readonly Arrow[];
}

/** `shows`: whether the trial with this number is to be seen. `begin`, `now`: in ms since 1970. */
export function pictureOf(
  lineage: Lineage,
  shows: (sequence: number) => boolean,
  begin: number,
  now: number,
): Picture {
  const seconds = (at: string) => (Date.parse(at) - begin) / 1000;
  const sequences = new Map(lineage.trials.map(({ trialId, sequence }) => [trialId, sequence]));
  const lanes = lineage.trials.filter(({ sequence }) => shows(sequence)).reverse();
  const laneOf = new Map(lanes.map(({ trialId }, lane) => [trialId, lane]));
  const forks = new Map(lineage.forks.map((fork) => [fork.trialId, fork]));
  const legs = new Map<string, Leg[]>(lanes.map(({ trialId }) => [trialId, []]));
  for (const leg of lineage.legs) legs.get(leg.trialId)?.push(leg);
  const stretches: Stretch[] = [];
  const arrows: Arrow[] = [];
  const add = (trial: Trial, leg: Leg | null, source: Leg | Fork | null, from: number, to: number) => {
    const heir: Stretch = {
      ...{ trial, from, to, lane: laneOf.get(trial.trialId) ?? 0 },
      leg: leg?.leg ?? 0,
      parameters: new Map(flat(leg === null ? trial.parameters : leg.parameters)),
      reports: source?.reports ?? 0,
      reason: leg?.reason ?? "",
      origin:
        source === null
          ? null
          : {
              sequence: sequences.get(source.originTrialId) ?? NaN,
              number: source.originNumber,
              step: source.step,
              fork: leg === null,
            },
    };
    stretches.push(heir);
    const lane = source === null ? undefined : laneOf.get(source.originTrialId);
    if (source === null || lane === undefined || lane === heir.lane) return;
    arrows.push({ lane, at: source.savedAt === null ? from : seconds(source.savedAt), heir });
  };
  for (const trial of lanes) {
    if (trial.startedAt === null) continue;
    const own = legs.get(trial.trialId) ?? [];
    const end = trial.endedAt === null ? (now - begin) / 1000 : seconds(trial.endedAt);
    const endOf = (at: number) => (own[at] === undefined ? end : seconds(own[at].at));
    add(trial, null, forks.get(trial.trialId) ?? null, seconds(trial.startedAt), endOf(0));
    own.forEach((leg, at) => add(trial, leg, leg, seconds(leg.at), endOf(at + 1)));
  }
  return { lanes, stretches, arrows };
}

/** The parameters by which legs can be coloured: those with several values, first what a leg has changed. */
export function parametersOf(stretches: readonly Stretch[]): string[] {
  const values = new Map<string, Set<string>>();
  const changed = new Set<string>();
  stretches.forEach(({ parameters, trial }, index) => {
    const before = stretches[index - 1];
    for (const [name, value] of parameters) {
      const seen = values.get(name) ?? new Set();
      values.set(name, seen.add(JSON.stringify(value)));
      if (before?.trial === trial && !same(before.parameters.get(name), value)) changed.add(name);
    }
  });
  return [...values]
    .flatMap(([name, seen]) => (seen.size > 1 ? [name] : []))
    .sort((a, b) => Number(changed.has(b)) - Number(changed.has(a)));
}

const WIDE = 20; // a range of numbers by this factor is coloured by their logarithms

/** What the colours stand for: a range of numbers, or a few values. */
export type Scale =
  | {
      kind: "range";
      low: number;
      high: number;
      /** Where a value is in the range, from 0 to 1; null: it is no number. */
      placeOf: (value: unknown) => number | null;
    }
  | {
      kind: "values";
      values: readonly unknown[];
      /** The index of a value; null: there is none. */
      placeOf: (value: unknown) => number | null;
    };

/** The scale of a parameter over the values that the legs have. */
export function scaleOf(stretches: readonly Stretch[], name: string): Scale {
  const values = stretches.flatMap(({ parameters }) => (parameters.has(name) ? [parameters.get(name)] : []));
  const numbers = values.filter((value) => typeof value === "number");
  if (numbers.length < values.length || numbers.length === 0) {
    const texts = [...new Set(values.map((value) => JSON.stringify(value)))].sort();
    return {
      kind: "values",
      values: texts.map((text) => JSON.parse(text) as unknown),
      placeOf: (value) => (value === undefined ? null : texts.indexOf(JSON.stringify(value))),
    };
  }
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  const grown = low > 0 && high / low >= WIDE ? Math.log : (value: number) => value;
  const span = grown(high) - grown(low) || 1;
  return {
    ...{ kind: "range", low, high },
    placeOf: (value) => (typeof value === "number" ? (grown(value) - grown(low)) / span : null),
  };
}

/** The leg at a lane and a time; undefined: there is none. */
export const stretchAt = (stretches: readonly Stretch[], lane: number, time: number): Stretch | undefined =>
  stretches.find((each) => each.lane === lane && time >= each.from && time <= each.to);
