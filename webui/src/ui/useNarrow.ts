import { useSyncExternalStore } from "react";

const QUERY = matchMedia("(width < 640px)");

function watch(watcher: () => void): () => void {
  QUERY.addEventListener("change", watcher);
  return () => QUERY.removeEventListener("change", watcher);
}

/** Whether the page is as narrow as on a phone. */
export function useNarrow(): boolean {
  return useSyncExternalStore(watch, () => QUERY.matches);
}
