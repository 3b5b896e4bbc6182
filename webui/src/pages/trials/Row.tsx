import { memo, type MouseEvent } from "react";
import { Link } from "wouter";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Menu, type MenuItem } from "@/ui/Menu";
import { Cell } from "./Cell";
import type { TableColumn } from "./columns";
import { Detail } from "./Detail";
import { hoverText } from "./hover";

export const ROW_HEIGHT = 34;
export const DETAIL_HEIGHT = 300;

const text = strings.trials;

export interface RowActs {
  /** Selects or not; with shift, all rows from the one selected before. */
  onSelect: (index: number, trial: Trial, range: boolean) => void;
  onExpand: (trial: Trial) => void;
  /** The row that arrow keys go on from. */
  onReach: (index: number) => void;
  itemsOf: (trial: Trial) => readonly MenuItem[];
}

interface RowProps extends RowActs {
  id: string;
  trial: Trial;
  index: number;
  top: number;
  columns: readonly TableColumn[];
  selected: boolean;
  expanded: boolean;
  reached: boolean;
}

/** A row of the table, and below it the details of its trial if they are wanted. */
export const Row = memo(function Row({
  id,
  trial,
  index,
  top,
  columns,
  selected,
  expanded,
  reached,
  onSelect,
  onExpand,
  onReach,
  itemsOf,
}: RowProps) {
  const tabIndex = reached ? 0 : -1;
  const select = (event: MouseEvent) => onSelect(index, trial, event.shiftKey);
  return (
    <>
      <div
        role="row"
        className="trial-row"
        style={{ transform: `translateY(${top}px)` }}
        data-index={index}
        aria-rowindex={index + 2}
        aria-level={1}
        aria-selected={selected}
        aria-expanded={expanded}
        tabIndex={tabIndex}
        onFocus={() => onReach(index)}
      >
        <div role="gridcell" className="trial-control">
          <input
            type="checkbox"
            checked={selected}
            tabIndex={tabIndex}
            aria-label={text.select(trial.sequence)}
            onClick={select}
            onChange={() => undefined}
          />
          <button
            type="button"
            className="expander"
            tabIndex={tabIndex}
            aria-label={text.expand(trial.sequence)}
            aria-expanded={expanded}
            onClick={() => onExpand(trial)}
          >
            <span aria-hidden>{expanded ? "▾" : "▸"}</span>
          </button>
        </div>
        {columns.map((column, at) => (
          <div
            key={column.name}
            role="gridcell"
            className={`trial-cell${column.numeric ? " number" : ""}${at === 0 ? " pinned" : ""}`}
          >
            {column.name === "sequence" || column.name === "id" ? (
              <Link href={`/trials/${trial.id}`} tabIndex={tabIndex} title={hoverText(trial)}>
                <Cell trial={trial} column={column.name} />
              </Link>
            ) : (
              <Cell trial={trial} column={column.name} />
            )}
          </div>
        ))}
        <div role="gridcell" className="trial-actions" data-reached={reached}>
          <Menu
            small
            label="⋯"
            name={text.actions(trial.sequence)}
            items={() => itemsOf(trial)}
            tabIndex={tabIndex}
          />
        </div>
      </div>
      {expanded ? (
        <div
          role="row"
          aria-level={2}
          className="trial-detail-row"
          style={{ transform: `translateY(${top + ROW_HEIGHT}px)`, height: `${DETAIL_HEIGHT}px` }}
        >
          <div role="gridcell" aria-colspan={columns.length + 2} className="trial-detail-cell">
            <Detail id={id} trial={trial} onClose={() => onExpand(trial)} />
          </div>
        </div>
      ) : null}
    </>
  );
});

interface MissingRowProps {
  index: number;
  top: number;
  columns: readonly TableColumn[];
}

/** Stands for a trial that is still on its way: it says at least where in the table one is. */
export const MissingRow = memo(function MissingRow({ index, top, columns }: MissingRowProps) {
  return (
    <div role="presentation" className="trial-row missing" style={{ transform: `translateY(${top}px)` }}>
      <div className="trial-control" />
      {columns.map((column, at) => (
        <div key={column.name} className={at === 0 ? "trial-cell pinned" : "trial-cell"}>
          {at === 0 ? (
            <span className="soft number">{text.position(index + 1)}</span>
          ) : (
            <span className="bone" />
          )}
        </div>
      ))}
      <div />
    </div>
  );
});
