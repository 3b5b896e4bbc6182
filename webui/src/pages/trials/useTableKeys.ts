import { useEffect, useRef, type KeyboardEvent } from "react";
import { useLocation } from "wouter";
import type { Trial } from "@/data/trials";
import { ROW_HEIGHT } from "./Row";

interface TableKeys {
  box: { readonly current: HTMLDivElement | null };
  total: number;
  /** The row that the keys go on from, and its trial if that has been read. */
  reached: number;
  trial: Trial | undefined;
  open: ReadonlySet<string>;
  onReach: (index: number) => void;
  onSelect: (index: number, trial: Trial, range: boolean) => void;
  onExpand: (trial: Trial) => void;
}

/** Arrows, Page Up and Down, Home and End move; Space selects, Enter opens, right and left show and hide details. */
export function useTableKeys({ box, total, reached, trial, open, onReach, onSelect, onExpand }: TableKeys) {
  const [, navigate] = useLocation();
  const wanted = useRef<number>(null); // the row that gets the focus as soon as it is there
  useEffect(() => {
    if (wanted.current === null) return;
    const row = box.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`) ?? null;
    if (row === null) return;
    wanted.current = null;
    row.focus({ preventScroll: true });
  });
  const go = (index: number) => {
    wanted.current = Math.min(Math.max(index, 0), total - 1);
    box.current?.focus({ preventScroll: true }); // the row that has it now may leave
    onReach(wanted.current);
  };
  return (event: KeyboardEvent<HTMLDivElement>) => {
    const { target, key } = event;
    if (!(target instanceof HTMLElement) || event.defaultPrevented) return;
    const onRow = target === box.current || target.dataset.index !== undefined;
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -total,
      End: total,
    };
    const step = steps[key];
    if (step !== undefined && (onRow || target.closest("[data-index]") !== null)) go(reached + step);
    else if (!onRow || trial === undefined) return;
    else if (key === " ") onSelect(reached, trial, event.shiftKey);
    else if (key === "Enter") navigate(`/trials/${trial.id}`);
    else if (key === "ArrowRight" && !open.has(trial.id)) onExpand(trial);
    else if (key === "ArrowLeft" && open.has(trial.id)) onExpand(trial);
    else return;
    event.preventDefault();
  };
}
