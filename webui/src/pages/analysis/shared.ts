/** What all charts of the analysis are given. */
import type { Columns } from "@/data/columns";
import type { PackedColumn } from "@/data/packed";
import type { Brush, Brushes } from "./selection";

/** A column as the server describes it. */
export interface Described {
  name: string;
  group: "trial" | "parameters" | "metrics";
  kind: "number" | "category" | "status" | "time";
  min: number | null;
  max: number | null;
  categories: readonly unknown[] | null;
  count: number;
  integer: boolean;
  log: boolean;
}

export interface Metric {
  /** The name of its column. */
  name: string;
  label: string;
  minimise: boolean;
  values: ArrayLike<number>;
  /** Of the trials that are shown: the lowest and the highest. NaN: none. */
  low: number;
  high: number;
  /** How good each trial is, from 0 to LEVELS - 1: what it is coloured by. */
  levels: Uint8Array;
}

export interface Shared {
  id: string;
  columns: Columns;
  described: readonly Described[];
  metric: Metric;
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

/** The name as people know it: without what only tells columns apart. */
export const labelOf = (name: string) => name.replace(/^(parameters|metrics)\./, "").replace(/\/_name$/, "");

export const numberOfRow = (values: ArrayLike<number> | undefined, row: number): number =>
  values?.[row] ?? NaN;

export const statusOf = (status: PackedColumn | undefined, row: number): string => {
  const text = status?.categories?.[status.values[row] ?? -1];
  return typeof text === "string" ? text : "";
};
