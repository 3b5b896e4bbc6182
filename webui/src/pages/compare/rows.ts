/** The rows of a comparison: what each trial has of every parameter and metric. */
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { formatDuration, formatNumber } from "@/ui/format";
import { parsedMetric } from "@/ui/trial/parsedMetric";
import { flat, shownValue } from "@/ui/trial/flat";
import { isRecord, same } from "@/ui/trial/space";

const text = strings.compare;

export type Group = "parameters" | "metrics" | "trial";

export interface CompareRow {
  group: Group;
  name: string;
  /** One per trial, as shown; null: it has none. */
  cells: readonly (string | null)[];
  differs: boolean;
}

type Values = ReadonlyMap<string, unknown>;

export function rowsOf(trials: readonly Trial[]): readonly CompareRow[] {
  return [
    ...rowsOfGroup(
      "parameters",
      trials.map((trial) => new Map(flat(trial.parameters))),
    ),
    ...rowsOfGroup("metrics", trials.map(metricsOf)),
    ...rowsOfGroup("trial", trials.map(ownOf)),
  ];
}

function rowsOfGroup(group: Group, trials: readonly Values[]): readonly CompareRow[] {
  const names = new Set(trials.flatMap((values) => [...values.keys()]));
  return [...names].map((name) => {
    const values = trials.map((trial) => trial.get(name));
    return {
      group,
      name,
      cells: values.map((value) => (value === undefined ? null : shownValue(value))),
      differs: values.some((value) => !same(value, values[0])),
    };
  });
}

function metricsOf(trial: Trial): Values {
  const values = new Map<string, unknown>();
  const set = (name: string, value: number | null, written: string | null) => {
    if (written !== null) values.set(name, value ?? written);
  };
  set(text.rows.final, trial.finalValue, trial.finalText);
  set(text.rows.latest, trial.latestValue, trial.latestText);
  const final = parsedMetric(trial.finalText);
  if (isRecord(final))
    for (const [key, value] of Object.entries(final)) if (key !== "default") values.set(key, value);
  return values;
}

function ownOf(trial: Trial): Values {
  const seconds =
    trial.startedAt === null || trial.endedAt === null
      ? null
      : (Date.parse(trial.endedAt) - Date.parse(trial.startedAt)) / 1000;
  return new Map<string, unknown>([
    [text.rows.status, trial.status],
    [text.rows.duration, seconds === null ? null : formatDuration(seconds)],
    [text.rows.intermediates, formatNumber(trial.intermediates)],
    [text.rows.source, trial.source.toLowerCase()],
    [text.rows.attempt, trial.attempt],
    [text.rows.message, trial.note ?? trial.reason],
  ]);
}
