import { useEffect, useState, useSyncExternalStore } from "react";
import { useLocation } from "wouter";
import { strings } from "@/strings";
import { Dialog } from "@/ui/Dialog";
import { actOf, DESTINATIONS, enableShortcuts, isTypedInto, shortcutsEnabled } from "./keys";
import "./shortcuts.css";

const PREFIX_MS = 1500; // how long a "g" waits for its second key
const texts = strings.shortcuts;

let shown = false;
const watchers = new Set<() => void>();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function showShortcuts(show: boolean): void {
  shown = show;
  for (const watcher of watchers) watcher();
}

/** Listens for the shortcuts of every page, and shows them. */
export function Shortcuts() {
  const open = useSyncExternalStore(watch, () => shown);
  const [location, navigate] = useLocation();

  useEffect(() => {
    let prefixedAt = -Infinity;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open]") !== null) return;
      if (isTypedInto(event.target)) {
        if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
        return;
      }
      if (!shortcutsEnabled()) return;
      const act = actOf(event.key, { prefixed: event.timeStamp - prefixedAt < PREFIX_MS, path: location });
      prefixedAt = act?.kind === "prefix" ? event.timeStamp : -Infinity;
      if (act === null) return;
      if (act.kind === "search") {
        const field = document.querySelector<HTMLInputElement>("main input[type=search]");
        if (field === null) return;
        field.focus();
        field.select();
      } else if (act.kind === "help") showShortcuts(true);
      else if (act.kind === "go") navigate(act.to);
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [location, navigate]);

  return open ? <ShortcutsDialog /> : null;
}

function ShortcutsDialog() {
  const [enabled, setEnabled] = useState(shortcutsEnabled);
  const rows: [readonly string[], string][] = [
    [["?"], texts.help],
    [["/"], texts.search],
    [["Ctrl", "K"], texts.palette],
    [["Esc"], texts.leave],
    ...DESTINATIONS.map((item): [string[], string] => [["g", item.key], item.label]),
  ];
  return (
    <Dialog title={texts.title} onClose={() => showShortcuts(false)} narrow>
      <table className="shortcuts">
        <thead className="visually-hidden">
          <tr>
            <th scope="col">{texts.keys}</th>
            <th scope="col">{texts.effect}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([keys, label]) => (
            <tr key={label}>
              <th scope="row">
                {keys.map((key, at) => (
                  <span key={key}>
                    {at === 0 ? null : keys[0] === "Ctrl" ? " + " : ` ${texts.then} `}
                    <kbd>{key}</kbd>
                  </span>
                ))}
              </th>
              <td>{label}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label className="row shortcuts-switch">
        <input
          type="checkbox"
          checked={enabled}
          onChange={(event) => {
            enableShortcuts(event.target.checked);
            setEnabled(event.target.checked);
          }}
        />
        {texts.enabled}
      </label>
      <p className="soft">{texts.enabledHint}</p>
    </Dialog>
  );
}
