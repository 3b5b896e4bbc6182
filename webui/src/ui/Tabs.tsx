import { useEffect, useRef, type KeyboardEvent } from "react";

interface TabsProps<T extends string> {
  label: string;
  tabs: readonly { id: T; label: string }[];
  value: T;
  onChange: (value: T) => void;
  /** The id of the element that shows the chosen tab. */
  panel: string;
}

/** A list of tabs; arrow keys move. What they show is the caller's, in an element with role "tabpanel". */
export function Tabs<T extends string>({ label, tabs, value, onChange, panel }: TabsProps<T>) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // An address may name a tab that lies beyond the edge of a narrow page; the page itself stays where it is.
    const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (!tab || !list.current) return;
    const [strip, chosen] = [list.current.getBoundingClientRect(), tab.getBoundingClientRect()];
    list.current.scrollLeft +=
      Math.max(0, chosen.right - strip.right) + Math.min(0, chosen.left - strip.left);
  }, [value, tabs.length]);
  const move = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === value);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (next === undefined) return;
    onChange(next.id);
    event.currentTarget.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div ref={list} className="tabs" role="tablist" aria-label={label} tabIndex={-1} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          data-tab={tab.id}
          className="tab"
          aria-selected={tab.id === value}
          aria-controls={panel}
          tabIndex={tab.id === value ? 0 : -1}
          onClick={() => onChange(tab.id)}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}
