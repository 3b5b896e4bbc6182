import type { Objective } from "@/data/experiment";
import { strings } from "@/strings";
import { labelOf, type Described } from "./shared";

/** What trials can be coloured and compared by, each with its text: objectives come first and say what is best. */
export function metricsOf(
  described: readonly Described[],
  objectives: readonly Objective[],
): [string, string][] {
  const [main] = objectives;
  const known = described
    .map(({ name }) => name)
    .filter((name) => name === "value" || (name.startsWith("metrics.") && name !== `metrics.${main?.name}`));
  const wanted = objectives.filter(({ column }) => known.includes(column));
  const others = known.filter((name) => !wanted.some(({ column }) => column === name));
  return [
    ...wanted.map(({ name, mode, column }): [string, string] => [
      column,
      strings.analysis.objective(name, mode === "minimize"),
    ]),
    ...others.map((name): [string, string] => [name, labelOf(name)]),
  ];
}
