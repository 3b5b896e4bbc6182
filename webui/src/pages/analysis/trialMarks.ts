/** Trials as points: by which values, in which colours, and which of them is below the pointer. */
import { numbersOf } from "@/data/packed";
import { strings } from "@/strings";
import { levelColours, type Colours } from "@/ui/chart/colours";
import type { ChartTable } from "@/ui/chart/Figure";
import { tip } from "@/ui/chart/tip";
import { MANY_POINTS, nearest, paintPoints, type Paint, type Scales } from "@/ui/plot/paint";
import type { Hit } from "@/ui/plot/Plot";
import { addParameters } from "./tipParameters";
import { cellAt, statusOf, textAt, type Shared } from "./shared";

/** Shares of the plane's first two numbers of low discrepancy: places along two axes are not related. */
const SPREADS = { x: 0.754_878, y: 0.569_84 } as const;

/** Where the trials are by this column; those of one category are spread a little, always in the same way. */
export function placesBy(shared: Shared, name: string, axis: keyof typeof SPREADS = "x"): ArrayLike<number> {
  const column = shared.columns.get(name);
  if (column === undefined) return new Float64Array(shared.columns.rows).fill(NaN);
  const values = numbersOf(column);
  if (column.categories === undefined) return values;
  return values.map((value, row) => value + (((row * SPREADS[axis]) % 1) - 0.5) * 0.6);
}

export function paintTrials(
  shared: Shared,
  xs: ArrayLike<number>,
  ys: ArrayLike<number>,
  colours: Colours,
  { byMetric, faint }: { byMetric: boolean; faint: boolean },
): Paint {
  const { shown, selected, metric } = shared;
  const some = selected.length < shown.length;
  const colour = byMetric ? levelColours(colours.dark) : (colours.series[0] ?? "");
  return (context, scales) => {
    const places = { x: xs, y: ys };
    if (some) paintPoints(context, scales, { ...places, rows: shown, colour: colours.quiet, alpha: 0.18 });
    const alpha = faint ? { alpha: selected.length > MANY_POINTS ? 0.12 : 0.45 } : {};
    paintPoints(context, scales, { ...places, ...alpha, rows: selected, colour, levels: metric.levels });
  };
}

export const finder =
  (shared: Shared, xs: ArrayLike<number>, ys: ArrayLike<number>, names: readonly string[]) =>
  (at: { x: number; y: number }, scales: Scales): Hit | null => {
    const row = nearest(scales, xs, ys, shared.selected, at);
    if (row < 0) return null;
    return {
      x: scales.x.at(xs[row] ?? NaN),
      y: scales.y.at(ys[row] ?? NaN),
      tip: tipOf(shared, row, names),
      onPick: () => shared.open(row),
    };
  };

const MOST_TOLD = 14;

/** The trial's number, `more`, its status, its metric, these columns, and its parameters. */
export function tipOf(
  shared: Shared,
  row: number,
  names: readonly string[] = [],
  more: readonly (readonly [string, string])[] = [],
): HTMLElement {
  const { columns, metric } = shared;
  const parameters = [...columns.all.keys()].filter(
    (name) => name.startsWith("parameters.") && cellAt(columns.get(name), row) !== null,
  );
  const told = new Set([metric.name, ...names.filter((name) => name !== "sequence"), ...parameters]);
  const sequence = columns.sequence[row] ?? 0;
  const box = tip(strings.analysis.trial(sequence), [
    ...more,
    [strings.analysis.status, statusOf(columns, row)],
    ...[...told]
      .slice(0, MOST_TOLD)
      .map((name) => [shared.label(name), textAt(columns.get(name), row)] as [string, string]),
  ]);
  addParameters(box, shared.id, sequence, new Set([...told].map((name) => shared.label(name))));
  return box;
}

/** The selected trials with these columns. */
export function trialTable(shared: Shared, names: readonly string[]): ChartTable {
  const { columns, selected } = shared;
  const told = [...new Set(names)].filter((name) => name !== "sequence");
  return {
    columns: ["sequence", "status", ...told],
    rows: Array.from(selected, (row) => [
      columns.sequence[row] ?? null,
      statusOf(columns, row),
      ...told.map((name) => cellAt(columns.get(name), row)),
    ]),
  };
}
