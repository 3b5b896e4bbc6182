import { useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface MenuItem {
  label: string;
  onSelect: () => void;
  /** True, or the sentence that says why it cannot be chosen now. */
  disabled?: boolean | string;
  danger?: boolean;
  checked?: boolean; // of a choice
}

interface MenuProps {
  label: ReactNode;
  /** Where there are many menus: made when it is opened. */
  items: readonly MenuItem[] | (() => readonly MenuItem[]);
  /** For a button that shows only a picture. */
  name?: string;
  small?: boolean;
  tabIndex?: number;
}

/** A button that opens a menu below itself; arrow keys move, Escape closes. */
export function Menu({ label, items, name, small = false, tabIndex }: MenuProps) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  const place = () => {
    const [under, box] = [button.current?.getBoundingClientRect(), menu.current];
    if (under === undefined || box === null) return;
    const lowest = window.innerHeight - box.offsetHeight - 8;
    const above = under.top - box.offsetHeight - 8; // where there is no room below
    const top = under.bottom <= lowest ? under.bottom : above >= 0 ? above : Math.max(0, lowest);
    box.style.top = `${top + window.scrollY}px`;
    box.style.left = `${Math.max(8, Math.min(under.left, window.innerWidth - box.offsetWidth - 16)) + window.scrollX}px`;
  };
  const move = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll<HTMLButtonElement>("button:not(:disabled)")];
    const at = buttons.findIndex((item) => item === document.activeElement);
    buttons[(at + step + buttons.length) % buttons.length]?.focus();
  };

  return (
    <>
      <button
        ref={button}
        type="button"
        className={small ? "button small" : "button"}
        popoverTarget={id}
        aria-haspopup="menu"
        aria-label={name}
        tabIndex={tabIndex}
      >
        {label}
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        tabIndex={-1}
        className="menu"
        onKeyDown={move}
        onBeforeToggle={(event) => setOpen(event.newState === "open")}
        onToggle={(event) => {
          if (event.newState !== "open") return;
          place();
          menu.current?.querySelector<HTMLButtonElement>("button:not(:disabled)")?.focus();
        }}
      >
        {(open ? (typeof items === "function" ? items() : items) : []).map((item) => (
          <button
            key={item.label}
            type="button"
            role={item.checked === undefined ? "menuitem" : "menuitemcheckbox"}
            aria-checked={item.checked}
            disabled={Boolean(item.disabled)}
            className={item.danger === true ? "menu-item danger" : "menu-item"}
            onClick={() => {
              if (item.checked === undefined) menu.current?.hidePopover();
              item.onSelect();
            }}
          >
            {item.checked === undefined ? null : <span aria-hidden>{item.checked ? "☑" : "☐"}</span>}
            <span>
              {item.label}
              {typeof item.disabled === "string" ? <small className="menu-why">{item.disabled}</small> : null}
            </span>
          </button>
        ))}
      </div>
    </>
  );
}
