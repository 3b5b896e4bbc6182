import { useState, type DragEvent } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { columnSet, SET_NAMES, type Group, type TableColumn } from "./columns";

const text = strings.trials.chooser;
const GROUPS: readonly Group[] = ["trial", "parameters", "metrics"];

interface ColumnChooserProps {
  all: ReadonlyMap<string, TableColumn>;
  chosen: readonly string[];
  leftOut: number;
  onChange: (columns: readonly string[]) => void;
  onResetWidths: () => void;
  onClose: () => void;
}

/** Which columns are shown, in which order. */
export function ColumnChooser({
  all,
  chosen,
  leftOut,
  onChange,
  onResetWidths,
  onClose,
}: ColumnChooserProps) {
  const [find, setFind] = useState("");
  const typed = find.trim().toLowerCase();
  const found = [...all.values()].filter((column) => column.label.toLowerCase().includes(typed));
  const change = (columns: readonly string[]) => {
    if (columns.length > 0) onChange(columns); // a table of no columns would show nothing
  };
  const footer = (
    <>
      <Button onClick={onResetWidths}>{text.widths}</Button>
      <Button look="primary" onClick={onClose}>
        {strings.common.close}
      </Button>
    </>
  );
  return (
    <Dialog title={text.title} onClose={onClose} footer={footer}>
      <div className="stack">
        <div className="row" role="group" aria-label={text.sets}>
          {SET_NAMES.map((set) => (
            <Button key={set} small onClick={() => change(columnSet(set, all))}>
              {text.setNames[set]}
            </Button>
          ))}
        </div>
        <div className="chooser">
          <div className="stack">
            <input
              type="search"
              className="input"
              aria-label={text.find}
              placeholder={text.find}
              value={find}
              onChange={(event) => setFind(event.target.value)}
            />
            {found.length === 0 ? <p className="soft">{text.noneFound}</p> : null}
            {GROUPS.map((group) => (
              <GroupChoice
                key={group}
                group={group}
                columns={found.filter((column) => column.group === group)}
                chosen={chosen}
                onChange={change}
              />
            ))}
            {leftOut > 0 ? <p className="soft">{text.leftOut(leftOut)}</p> : null}
          </div>
          <Order all={all} chosen={chosen} onChange={change} />
        </div>
      </div>
    </Dialog>
  );
}

interface GroupChoiceProps {
  group: Group;
  columns: readonly TableColumn[];
  chosen: readonly string[];
  onChange: (columns: readonly string[]) => void;
}

function GroupChoice({ group, columns, chosen, onChange }: GroupChoiceProps) {
  if (columns.length === 0) return null;
  const names = columns.map(({ name }) => name);
  const every = names.every((name) => chosen.includes(name));
  const without = chosen.filter((name) => !names.includes(name));
  return (
    <fieldset className="chooser-group">
      <legend>
        <label className="row">
          <input
            type="checkbox"
            checked={every}
            onChange={() => onChange(every ? without : [...without, ...names])}
          />
          {text.groups[group]}
        </label>
      </legend>
      {columns.map(({ name, label }) => (
        <label key={name} className="row" title={label}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(event) =>
              onChange(event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
            }
          />
          <span className="head-label">{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

function moved(columns: readonly string[], from: number, to: number): string[] {
  const next = [...columns];
  next.splice(to, 0, ...next.splice(from, 1));
  return next;
}

function Order({
  all,
  chosen,
  onChange,
}: Omit<GroupChoiceProps, "group" | "columns"> & Pick<ColumnChooserProps, "all">) {
  const [dragged, setDragged] = useState<number | null>(null);
  const drop = (event: DragEvent, to: number) => {
    event.preventDefault();
    if (dragged !== null) onChange(moved(chosen, dragged, to));
    setDragged(null);
  };
  return (
    <div className="stack">
      <h3>{text.shown}</h3>
      <ol className="chooser-order">
        {chosen.map((name, at) => {
          const label = all.get(name)?.label ?? name;
          return (
            <li
              key={name}
              draggable
              data-dragged={dragged === at}
              onDragStart={() => setDragged(at)}
              onDragOver={(event) => event.preventDefault()}
              onDrop={(event) => drop(event, at)}
              onDragEnd={() => setDragged(null)}
            >
              <span aria-hidden className="grip">
                ⠿
              </span>
              <span className="head-label" title={label}>
                {label}
              </span>
              <Button
                small
                look="plain"
                aria-label={text.up(label)}
                disabled={at === 0}
                onClick={() => onChange(moved(chosen, at, at - 1))}
              >
                ↑
              </Button>
              <Button
                small
                look="plain"
                aria-label={text.down(label)}
                disabled={at === chosen.length - 1}
                onClick={() => onChange(moved(chosen, at, at + 1))}
              >
                ↓
              </Button>
              <Button
                small
                look="plain"
                aria-label={text.remove(label)}
                disabled={chosen.length === 1}
                onClick={() => onChange(chosen.filter((one) => one !== name))}
              >
                ✕
              </Button>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
