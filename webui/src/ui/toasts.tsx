/** Short words about what was done or failed: they stand in a corner and are read out. */
import { useSyncExternalStore } from "react";
import { sentenceOf } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "./Button";

interface Toast {
  id: number;
  sentence: string;
  bad: boolean;
  undo: (() => Promise<unknown>) | null;
}

const SHOWN_MS = 6000;
const UNDO_MS = 15_000; // a toast that offers to undo something stays longer
let toasts: readonly Toast[] = [];
let last = 0;
const watchers = new Set<() => void>();

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

const drop = (id: number) => change(toasts.filter((toast) => toast.id !== id));

/** Say what was done. `undo`, where that is possible, is offered as a button. */
export function say(sentence: string, undo: (() => Promise<unknown>) | null = null): void {
  last += 1;
  const id = last;
  change([...toasts.slice(-4), { id, sentence, bad: false, undo }]);
  setTimeout(() => drop(id), undo === null ? SHOWN_MS : UNDO_MS);
}

/** The newest thing that can be undone, undone; false if there is none. */
export function undoLast(): boolean {
  const found = toasts.findLast(({ undo }) => undo !== null);
  if (found !== undefined) undo(found);
  return found !== undefined;
}

function undo(toast: Toast): void {
  drop(toast.id);
  toast.undo?.().then(() => say(strings.common.undone), complain);
}

/** A failure stays until it is closed. */
export function complain(error: unknown): void {
  last += 1;
  change([...toasts.slice(-4), { id: last, sentence: sentenceOf(error), bad: true, undo: null }]);
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function Toasts() {
  const shown = useSyncExternalStore(watch, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} className={toast.bad ? "toast bad" : "toast"}>
          <span>{toast.sentence}</span>
          {toast.undo === null ? null : (
            <Button small onClick={() => undo(toast)}>
              {strings.common.undo}
            </Button>
          )}
          <Button look="plain" small aria-label={strings.common.close} onClick={() => drop(toast.id)}>
            ✕
          </Button>
        </div>
      ))}
    </div>
  );
}
