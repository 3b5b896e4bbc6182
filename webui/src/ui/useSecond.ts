import { useSyncExternalStore } from "react";

let now = Date.now();
let timer: number | undefined;
const watchers = new Set<() => void>();

function tick(): void {
  if (document.hidden) return;
  now = Date.now();
  for (const watcher of watchers) watcher();
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  if (watchers.size === 1) {
    now = Date.now();
    timer = window.setInterval(tick, 1000);
  }
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) clearInterval(timer);
  };
}

/** The time, a second exact: ms since 1970. One clock for all that show it; it rests in a hidden tab. */
export function useSecond(): number {
  return useSyncExternalStore(watch, () => now);
}
