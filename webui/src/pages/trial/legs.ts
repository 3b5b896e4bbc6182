/** The legs of a trial: what each has changed, and where they are in its curve. */
import type { Leg } from "@/data/lineage";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { shownValue } from "@/ui/trial/flat";
import { differences } from "./differences";

const text = strings.trial.legs;
const MOST_CHANGES = 6;
const MOST_NAMED = 5;

export interface Change {
  name: string;
  /** undefined: the leg before, or this one, does not have the parameter. */
  before: unknown;
  after: unknown;
}

/** For each leg the parameters that differ from those of the leg before. `first`: those of the first leg. */
export function changesOf(legs: readonly Leg[], first: unknown): Change[][] {
  return legs.map(({ parameters }, at) =>
    differences(parameters, at === 0 ? first : legs[at - 1]?.parameters)
      .filter(({ equal }) => !equal)
      .map(({ name, own, best }) => ({ name, before: best, after: own })),
  );
}

export const changeText = ({ name, before, after }: Change): string =>
  text.change(name, valueText(before), valueText(after));

const valueText = (value: unknown) => (value === undefined ? strings.common.notAvailable : shownValue(value));

/** Where a leg begins in the curve. */
export interface LegMark {
  leg: number;
  /** The number of its first result. */
  reports: number;
  /** What it has changed, in a line. */
  changed: string;
}

/** The legs whose results the curve shows: a later leg replaces all results from its first one on. */
export function marksOf(legs: readonly Leg[], first: unknown): LegMark[] {
  const changes = changesOf(legs, first);
  let next = Infinity;
  return legs
    .map(({ leg, reports }, at) => ({ leg, reports, changed: changedText(changes[at] ?? []) }))
    .reverse()
    .filter(({ reports }) => {
      const shown = reports < next;
      next = Math.min(next, reports);
      return shown;
    })
    .reverse();
}

function changedText(changes: readonly Change[]): string {
  if (changes.length === 0) return text.unchanged;
  const left = changes.length - MOST_CHANGES;
  const shown = changes.slice(0, MOST_CHANGES).map(changeText).join(", ");
  return left > 0 ? `${shown}, ${text.moreChanges(left)}` : shown;
}

/** The leg that has reported the result with this number; undefined: the first one. */
export function legAt(marks: readonly LegMark[], step: number): LegMark | undefined {
  return marks.findLast(({ reports }) => reports <= step);
}

/** Where the legs begin, in a sentence; null if there are none. */
export function legsSentence(marks: readonly LegMark[]): string | null {
  if (marks.length === 0) return null;
  const named = marks.slice(-MOST_NAMED).map(({ leg, reports }) => text.begins(leg, formatNumber(reports)));
  return text.sentence(named, marks.length);
}
