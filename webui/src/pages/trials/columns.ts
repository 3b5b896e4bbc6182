/** The columns that the table can show, and sets of them. */
import type { Objective } from "@/data/experiment";
import type { Column as SchemaColumn, Trial } from "@/data/trials";
import { strings } from "@/strings";
import { shownName } from "@/ui/trial/flat";
import { parsedMetric } from "@/ui/trial/parsedMetric";
import { isRecord } from "@/ui/trial/space";

export type Group = "trial" | "parameters" | "metrics";

export interface TableColumn {
  name: string;
  label: string;
  group: Group;
  width: number;
  numeric: boolean;
  /** Whether the server sorts by it. */
  sortable: boolean;
}

const text = strings.trials;

const own = (
  name: keyof typeof text.columns,
  width: number,
  numeric = false,
  sortable = true,
): TableColumn => ({
  name,
  label: text.columns[name],
  group: "trial",
  width,
  numeric,
  sortable,
});

const OWN: readonly TableColumn[] = [
  own("sequence", 108, true),
  own("id", 96, false, false),
  own("duration", 112, true),
  own("status", 176),
  own("value", 150, true),
  own("latest", 120, true),
  own("intermediates", 120, true),
  own("created", 152),
  own("started", 152),
  own("ended", 152),
  own("message", 340, false, false),
  own("attempt", 96, true),
  own("source", 120),
  own("retryOf", 96, false, false),
  own("logPath", 300, false, false),
  own("tags", 200, false, false),
  own("userNote", 260, false, false),
];

const PARAMETERS = "parameters.";
const METRICS = "metrics.";

/** NNI's columns. */
export const DEFAULT = ["sequence", "id", "duration", "status", "value"] as const;

const MOST_PARAMETERS = 5;

/** What a trial is and has reached, its tags if any trial has some, its first parameters, and why it has ended. */
export const defaultColumns = (
  schema: readonly SchemaColumn[],
  objectives: readonly Objective[],
  tagged: boolean,
): readonly string[] => [
  "sequence",
  "status",
  "value",
  ...(tagged ? ["tags"] : []),
  ...objectives.slice(1).map(({ column }) => column),
  ...schema
    .map(({ name }) => name)
    .filter((name) => name.startsWith(PARAMETERS))
    .slice(0, MOST_PARAMETERS),
  "duration",
  "message",
];

/** All columns by name, in the order in which they are offered. The main objective is the trials' result. */
export function catalogue(
  schema: readonly SchemaColumn[],
  objectives: readonly Objective[],
): ReadonlyMap<string, TableColumn> {
  const [main] = objectives;
  const columns = new Map(
    OWN.map((column) => [
      column.name,
      column.name === "value" ? { ...column, label: main?.name ?? column.label } : column,
    ]),
  );
  for (const { name, kind } of schema) {
    const group = name.startsWith(PARAMETERS) ? "parameters" : name.startsWith(METRICS) ? "metrics" : null;
    if (group === null || name === `${METRICS}${main?.name}`) continue;
    const label = shownName(name.slice(group.length + 1));
    const numeric = kind === "number";
    const width = Math.min(Math.max(96, 36 + 8.2 * label.length), 220);
    columns.set(name, { name, label, group, width: Math.round(width), numeric, sortable: true });
  }
  return columns;
}

export const SET_NAMES = ["nni", "parameters", "metrics", "times", "everything"] as const;
export type SetName = (typeof SET_NAMES)[number];

export function columnSet(set: SetName, all: ReadonlyMap<string, TableColumn>): string[] {
  const of = (group: Group) =>
    [...all.values()].filter((column) => column.group === group).map(({ name }) => name);
  switch (set) {
    case "nni":
      return [...DEFAULT];
    case "parameters":
      return ["sequence", "status", "value", ...of("parameters")];
    case "metrics":
      return ["sequence", "status", "value", "latest", "intermediates", ...of("metrics")];
    case "times":
      return ["sequence", "status", "duration", "created", "started", "ended", "attempt", "message"];
    case "everything":
      return [...all.keys()];
  }
}

/** A parameter of a trial by the name of its column: `outer/inner` is below a nested choice. */
export function parameterOf(trial: Trial, column: string): unknown {
  const name = column.slice(PARAMETERS.length);
  const parameters: unknown = trial.parameters;
  if (!isRecord(parameters)) return undefined;
  if (name in parameters) return parameters[name];
  let value: unknown = parameters;
  for (const part of name.split("/")) value = isRecord(value) ? value[part] : undefined;
  return value;
}

/** A further key of a final metric that is an object. */
export function metricOf(trial: Trial, column: string): unknown {
  const final = parsedMetric(trial.finalText);
  return isRecord(final) ? final[column.slice(METRICS.length)] : undefined;
}
