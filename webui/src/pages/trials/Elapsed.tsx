import { useSyncExternalStore } from "react";
import { formatDuration } from "@/ui/format";

/** One clock for all that count on, which runs only while something is shown. */
const watchers = new Set<() => void>();
let timer: number | undefined;
let now = Date.now();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const told of watchers) told();
  }, 1000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** How long it has been, counting on. */
export function Elapsed({ since }: { since: string }) {
  const at = useSyncExternalStore(watch, () => now);
  return formatDuration(Math.max(0, Math.round((at - Date.parse(since)) / 1000)));
}
