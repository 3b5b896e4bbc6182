/** What a trial's cells say when the pointer rests on them. */
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { flat, shownValue } from "@/ui/trial/flat";

const text = strings.trials;
const MOST_PARAMETERS = 10;
const LONGEST_VALUE = 80;

const said = new WeakMap<Trial, string>();

/** The trial's number and status, its result, and its first parameters, a line each. */
export function hoverText(trial: Trial): string {
  const known = said.get(trial);
  if (known !== undefined) return known;
  const made = lines(trial).join("\n");
  said.set(trial, made);
  return made;
}

function lines(trial: Trial): string[] {
  const parameters = flat(trial.parameters);
  const left = parameters.length - MOST_PARAMETERS;
  return [
    text.hover.title(trial.sequence, trial.status),
    ...result(trial),
    ...parameters
      .slice(0, MOST_PARAMETERS)
      .map(([name, value]) => text.hover.parameter(name, short(shownValue(value)))),
    ...(left > 0 ? [text.hover.more(left)] : []),
  ];
}

function result({ finalText, finalValue, latestText, latestValue }: Trial): string[] {
  if (finalText !== null) return [text.hover.result(text.columns.value, number(finalValue, finalText))];
  if (latestText === null) return [];
  return [text.hover.result(text.columns.latest, number(latestValue, latestText))];
}

const number = (value: number | null, written: string) =>
  value === null ? short(written) : formatNumber(value);

const short = (value: string) => (value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value);
