/**
 * Shortcuts of single keys. They can be turned off, as WCAG 2.1.4 wants, and never act while something is typed
 * or a dialog is open.
 */
import { strings } from "@/strings";

const texts = strings.shortcuts;

/** `g` and then the key. In an experiment's pages `within` goes to one of its own. */
export const DESTINATIONS: readonly { key: string; path: string; within?: true; label: string }[] = [
  { key: "e", path: "/", label: texts.experiments },
  { key: "r", path: "/resources", label: texts.resources },
  { key: "n", path: "/new", label: texts.newExperiment },
  { key: "o", path: "/", within: true, label: texts.overview },
  { key: "t", path: "/trials", within: true, label: texts.trials },
  { key: "a", path: "/analysis", within: true, label: texts.analysis },
  { key: "m", path: "/resources", within: true, label: texts.machines },
];

export type Act =
  { kind: "help" } | { kind: "search" } | { kind: "leave" } | { kind: "go"; to: string } | { kind: "prefix" };

/** What a key does on the page at `path`; null: nothing of ours. `prefixed`: it came right after `g`. */
export function actOf(key: string, { prefixed, path }: { prefixed: boolean; path: string }): Act | null {
  if (prefixed) {
    const inside = /^\/experiments\/[^/]+/.exec(path)?.[0];
    const found = DESTINATIONS.find((item) => item.key === key);
    if (found === undefined || (found.within === true && inside === undefined)) return null;
    if (found.within !== true) return { kind: "go", to: found.path };
    return { kind: "go", to: `${inside ?? ""}${found.path === "/" ? "" : found.path}` };
  }
  switch (key) {
    case "?":
      return { kind: "help" };
    case "/":
      return { kind: "search" };
    case "g":
      return { kind: "prefix" };
    default:
      return null;
  }
}

const TYPED_INTO =
  "input:not([type=checkbox], [type=radio], [type=button]), textarea, select, [contenteditable]";

/** Whether keys that arrive at this element are text. */
export function isTypedInto(element: EventTarget | null): boolean {
  return element instanceof Element && element.closest(TYPED_INTO) !== null;
}

const OFF = "nnimgr.shortcuts";

export function shortcutsEnabled(): boolean {
  try {
    return localStorage.getItem(OFF) !== "off";
  } catch {
    return true;
  }
}

export function enableShortcuts(enabled: boolean): void {
  try {
    if (enabled) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "off");
  } catch {
    // they stay as they are
  }
}
