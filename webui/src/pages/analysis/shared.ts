/** What all charts of the analysis are given. */
import type { Schemas } from "@/api/client";
import type { Columns } from "@/data/columns";
import type { Objective } from "@/data/experiment";
import { categoryText, numbersOf, type PackedColumn } from "@/data/packed";
import { strings } from "@/strings";
import { formatDuration, formatNumber } from "@/ui/format";
import { shownName } from "@/ui/trial/flat";
import { axisOf, type Axis } from "@/ui/plot/scale";
import type { Brush, Brushes } from "./selection";

export type { Brush };
export type Described = Schemas["Column"];

export interface Metric {
  /** The name of its column. */
  name: string;
  label: string;
  minimise: boolean;
  values: Float32Array | Float64Array;
  /** Of the trials that are shown: the best value, and the one from which on all worse ones look the same. */
  best: number;
  worst: number;
  /** How many of the trials that are shown have one. */
  count: number;
  /** How good each trial is, from 0 to LEVELS - 1: what it is coloured by. */
  levels: Uint8Array;
}

export interface Shared {
  id: string;
  columns: Columns;
  described: readonly Described[];
  metric: Metric;
  mode: string;
  /** What the experiment looks for: one or several; the first one is the main one. */
  objectives: readonly Objective[];
  /** The name of a column as people know it. */
  label: (name: string) => string;
  /** The text of the filter, which the server understands. */
  filter: string;
  /** Rows of the trials that the filter lets through. */
  shown: Uint32Array;
  brushes: Brushes;
  /** Rows of those that are selected too; all that are shown if nothing is brushed. */
  selected: Uint32Array;
  /** Brushes columns in all charts: null takes a brush away. */
  brush: (changes: Readonly<Record<string, Brush | null>>) => void;
  open: (row: number) => void;
}

/** The name as people know it: without what only tells columns apart. `main`: what the trials' number is. */
export const labelOf = (name: string, main: string = strings.analysis.defaultMetric): string =>
  ({ value: main, sequence: strings.analysis.sequence })[name] ??
  shownName(name.replace(/^(parameters|metrics)\./, ""));

export const statusOf = (columns: Columns, row: number): string => {
  const status = columns.get("status");
  const text = status?.categories?.[status.values[row] ?? -1];
  return typeof text === "string" ? text : "";
};

/** The value of a trial in a column, as people read it. */
export function textAt(column: PackedColumn | undefined, row: number): string {
  if (column === undefined) return formatNumber(NaN);
  const value = column.values[row] ?? NaN;
  if (column.categories === undefined)
    return ["duration", "created", "started", "ended"].includes(column.name)
      ? formatDuration(value)
      : formatNumber(value);
  return value < column.categories.length ? categoryText(column.categories[value]) : formatNumber(NaN);
}

/** As a cell of a table: numbers stay numbers. */
export function cellAt(column: PackedColumn | undefined, row: number): string | number | null {
  const value = column?.values[row] ?? NaN;
  if (column?.categories === undefined) return Number.isNaN(value) ? null : value;
  return value < column.categories.length ? categoryText(column.categories[value]) : null;
}

/** The axis of a column over the trials that are shown. */
export function columnAxis(shared: Shared, name: string, log: boolean): Axis {
  const column = shared.columns.get(name);
  if (column === undefined) return axisOf(shared.label(name), []);
  if (column.categories !== undefined)
    return axisOf(shared.label(name), [], { categories: column.categories.map(categoryText) });
  const values = numbersOf(column);
  const time = ["created", "started", "ended", "duration"].includes(name);
  const among =
    shared.shown.length === values.length
      ? values
      : Float64Array.from(shared.shown, (row) => values[row] ?? NaN);
  return axisOf(shared.label(name), among, { log, time });
}

/** What a brush of a range of an axis says of its column: of categories, those in it. */
export function brushOf(shared: Shared, name: string, [low, high]: readonly [number, number]): Brush {
  const categories = shared.columns.get(name)?.categories;
  if (categories === undefined) return { range: [low, high] };
  return { values: categories.filter((_, code) => code >= low - 0.5 && code <= high + 0.5) };
}
