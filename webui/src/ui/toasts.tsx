/** Short words about what was done or failed: they stand in a corner and are read out. */
import { useSyncExternalStore } from "react";
import { sentenceOf } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "./Button";

interface Toast {
  id: number;
  sentence: string;
  bad: boolean;
}

const SHOWN_MS = 6000;
let toasts: readonly Toast[] = [];
let last = 0;
const watchers = new Set<() => void>();

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

const drop = (id: number) => change(toasts.filter((toast) => toast.id !== id));

export function say(sentence: string): void {
  last += 1;
  const id = last;
  change([...toasts.slice(-4), { id, sentence, bad: false }]);
  setTimeout(() => drop(id), SHOWN_MS);
}

/** A failure stays until it is closed. */
export function complain(error: unknown): void {
  last += 1;
  change([...toasts.slice(-4), { id: last, sentence: sentenceOf(error), bad: true }]);
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
          <Button look="plain" small aria-label={strings.common.close} onClick={() => drop(toast.id)}>
            ✕
          </Button>
        </div>
      ))}
    </div>
  );
}
