import {
  columnResizingFeature,
  columnSizingFeature,
  tableFeatures,
  useTable,
  type ColumnDef,
  type ColumnSizingState,
} from "@tanstack/react-table";
import { useMemo, useState } from "react";
import { isRecord } from "@/ui/trial/space";
import { useNarrow } from "@/ui/useNarrow";
import { remember, remembered } from "@/ui/remembered";
import type { TableColumn } from "./columns";

const features = tableFeatures({ columnSizingFeature, columnResizingFeature });
export type Features = typeof features;
/** The table model has columns only: its rows lie on the server. */
export type NoRow = Record<string, never>;
const NO_ROWS: NoRow[] = [];
export const CONTROL_WIDTH = 62;
export const ACTIONS_WIDTH = 52;

/** Widths on a phone, where the result must be in sight beside number and status. */
const SLIM: Readonly<Record<string, number>> = { sequence: 64, status: 56, message: 260 };
const SLIMMEST = 112;

const widthsKey = (id: string) => `nnimgr.widths.${id}`;

function rememberedWidths(id: string): ColumnSizingState {
  const widths = remembered(widthsKey(id));
  if (!isRecord(widths)) return {};
  return Object.fromEntries(
    Object.entries(widths).flatMap(([name, width]) => (typeof width === "number" ? [[name, width]] : [])),
  );
}

/** The widths of the columns, and the model that changes them by dragging. */
export function useColumns(id: string, columns: readonly TableColumn[]) {
  const narrow = useNarrow();
  const [sizing, setSizing] = useState<ColumnSizingState>(() => rememberedWidths(id));
  const change = (next: ColumnSizingState) => {
    setSizing(next);
    remember(widthsKey(id), next);
  };
  const definitions = useMemo(
    () =>
      columns.map((column): ColumnDef<Features, NoRow> => ({
        id: column.name,
        header: column.label,
        size: narrow ? (SLIM[column.name] ?? Math.min(column.width, SLIMMEST)) : column.width,
        minSize: 56,
        maxSize: 1000,
      })),
    [columns, narrow],
  );
  const table = useTable({
    features,
    data: NO_ROWS,
    columns: definitions,
    state: { columnSizing: sizing },
    columnResizeMode: "onChange",
    onColumnSizingChange: (update) => change(typeof update === "function" ? update(sizing) : update),
  });
  const headers = table.getHeaderGroups()[0]?.headers ?? [];
  const widths = headers.map((header) => header.getSize());
  return {
    headers,
    /** For grid-template-columns of every row. */
    template: [CONTROL_WIDTH, ...widths, ACTIONS_WIDTH].map((width) => `${width}px`).join(" "),
    total: CONTROL_WIDTH + ACTIONS_WIDTH + widths.reduce((sum, width) => sum + width, 0),
    setWidth: (name: string, width: number) => change({ ...sizing, [name]: width }),
    resetWidths: () => change({}),
  };
}
