import type { Header as TableHeader } from "@tanstack/react-table";
import type { KeyboardEvent } from "react";
import type { TrialsQuestion } from "@/data/trials";
import { strings } from "@/strings";
import type { TableColumn } from "./columns";
import type { Features, NoRow } from "./useColumns";

const text = strings.trials;
const STEP = 16;

interface HeaderProps {
  headers: readonly TableHeader<Features, NoRow>[];
  columns: readonly TableColumn[];
  question: TrialsQuestion;
  allSelected: boolean;
  onSelectAll: (all: boolean) => void;
  onSort: (column: string) => void;
  onWidth: (column: string, width: number) => void;
}

/** The heads of the columns: a click sorts, the right edge changes the width. */
export function Header({
  headers,
  columns,
  question,
  allSelected,
  onSelectAll,
  onSort,
  onWidth,
}: HeaderProps) {
  return (
    <div role="rowgroup" className="trial-head">
      <div role="row" className="trial-head-row" aria-rowindex={1}>
        <div role="columnheader" className="trial-control">
          <input
            type="checkbox"
            checked={allSelected}
            aria-label={text.selectLoaded}
            onChange={(event) => onSelectAll(event.target.checked)}
          />
          <span className="visually-hidden">{text.controls}</span>
        </div>
        {columns.map((column, at) => {
          const header = headers.find((candidate) => candidate.column.id === column.name);
          return (
            <HeaderCell
              key={column.name}
              column={column}
              pinned={at === 0}
              sorted={
                question.sort === column.name ? (question.descending ? "descending" : "ascending") : "none"
              }
              width={header?.getSize() ?? column.width}
              onResize={header?.getResizeHandler()}
              onSort={onSort}
              onWidth={onWidth}
            />
          );
        })}
        <div role="columnheader" className="trial-actions">
          <span className="visually-hidden">{text.operation}</span>
        </div>
      </div>
    </div>
  );
}

interface HeaderCellProps {
  column: TableColumn;
  pinned: boolean;
  sorted: "ascending" | "descending" | "none";
  width: number;
  onResize: ((event: unknown) => void) | undefined;
  onSort: (column: string) => void;
  onWidth: (column: string, width: number) => void;
}

function HeaderCell({ column, pinned, sorted, width, onResize, onSort, onWidth }: HeaderCellProps) {
  const widen = (event: KeyboardEvent) => {
    const step = { ArrowRight: STEP, ArrowLeft: -STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onWidth(column.name, Math.max(56, width + step));
  };
  const mark = { ascending: "▲", descending: "▼", none: "" }[sorted];
  return (
    <div
      role="columnheader"
      aria-sort={column.sortable ? sorted : undefined}
      className={`trial-head-cell${column.numeric ? " number" : ""}${pinned ? " pinned" : ""}`}
    >
      {column.sortable ? (
        <button type="button" className="sorter" title={column.label} onClick={() => onSort(column.name)}>
          <span className="head-label">{column.label}</span>
          <span aria-hidden className="sort-mark">
            {mark}
          </span>
        </button>
      ) : (
        <span className="head-label" title={column.label}>
          {column.label}
        </span>
      )}
      {/* eslint-disable jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex -- a separator that can be focused is a control */}
      <div
        role="separator"
        aria-orientation="vertical"
        aria-label={text.resize(column.label)}
        aria-valuenow={Math.round(width)}
        aria-valuemin={56}
        aria-valuemax={1000}
        tabIndex={0}
        className="resizer"
        onMouseDown={onResize}
        onTouchStart={onResize}
        onKeyDown={widen}
      />
    </div>
  );
}
