import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "nnimgr.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set<() => void>();

function chosen(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system";
  }
}

/** Shows the chosen theme now and whenever the system's changes. */
export function applyTheme(): void {
  const theme = chosen();
  document.documentElement.dataset.theme = theme === "system" ? (system.matches ? "dark" : "light") : theme;
  for (const watcher of watchers) watcher();
}

export function chooseTheme(theme: Theme): void {
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // it holds for this page then
  }
  applyTheme();
}

system.addEventListener("change", applyTheme);

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** What was chosen, and what is shown: charts draw with the colours of the latter. */
export function useTheme(): { chosen: Theme; shown: "light" | "dark" } {
  const choice = useSyncExternalStore(watch, chosen);
  const shown = useSyncExternalStore(watch, () =>
    document.documentElement.dataset.theme === "dark" ? "dark" : "light",
  );
  return { chosen: choice, shown };
}
