import { useVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useMemo, useRef } from "react";
import { useSearchParams } from "wouter";
import type { Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { ExperimentRow, type RowActions } from "./ExperimentRow";
import { filterOf, sortedBy, SORTS, type Sort } from "./filters";
import type { Selection } from "./selection";

const texts = strings.experiments;
const ROW_PX = 50;

interface TableProps extends Omit<RowActions, "onSelect"> {
  items: readonly Summary[];
  selection: Selection;
  readAt: number;
}

/** The experiments, of which only the rows in sight are in the page. */
export function ExperimentTable({ items, selection, readAt, ...actions }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const lastSelected = useRef<string | null>(null);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    getItemKey: (at) => items[at]?.id ?? at,
    estimateSize: () => ROW_PX,
    overscan: 6,
  });
  const rows = virtual.getVirtualItems();
  const above = rows[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (rows.at(-1)?.end ?? 0);

  const onSelect: RowActions["onSelect"] = (item, range) => {
    const ids = new Set(selection.ids);
    const select = !ids.has(item.id);
    const [from, to] = [items.findIndex(({ id }) => id === lastSelected.current), items.indexOf(item)];
    const touched = range && from >= 0 ? items.slice(Math.min(from, to), Math.max(from, to) + 1) : [item];
    for (const { id } of touched) {
      if (select) ids.add(id);
      else ids.delete(id);
    }
    lastSelected.current = item.id;
    selection.set(ids);
  };
  const stable = useStable({ ...actions, onSelect });

  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reached by keyboard
    <div ref={box} className="experiments-scroll" role="region" aria-label={texts.region} tabIndex={0}>
      <table className="experiments" aria-rowcount={items.length + 1}>
        <Head items={items} selection={selection} />
        <tbody>
          <Gap height={above} />
          {rows.map(({ index, key }) => {
            const item = items[index];
            if (item === undefined) return null;
            return (
              <ExperimentRow
                key={key}
                item={item}
                at={index}
                selected={selection.ids.has(item.id)}
                hurried={virtual.isScrolling}
                readAt={readAt}
                actions={stable}
              />
            );
          })}
          <Gap height={below} />
        </tbody>
      </table>
    </div>
  );
}

/** The same functions at every rendering, so that rows that did not change are left alone. */
function useStable(actions: RowActions): RowActions {
  const latest = useRef(actions);
  useLayoutEffect(() => {
    latest.current = actions;
  });
  return useMemo(
    () => ({
      onSelect: (item, range) => latest.current.onSelect(item, range),
      onAction: (action, item) => latest.current.onAction(action, item),
      onResume: (item) => latest.current.onResume(item),
      onView: (item) => latest.current.onView(item),
      onClone: (item) => latest.current.onClone(item),
    }),
    [],
  );
}

function Gap({ height }: { height: number }) {
  return height > 0 ? (
    <tr aria-hidden style={{ height }}>
      <td colSpan={SORTS.length + 2} />
    </tr>
  ) : null;
}

function Head({ items, selection }: { items: readonly Summary[]; selection: Selection }) {
  const chosen = selection.items.length;
  const all = chosen > 0 && chosen === items.length;
  return (
    <>
      <colgroup>
        <col className="col-select" />
        {SORTS.map((name) => (
          <col key={name} className={`col-${name}`} />
        ))}
        <col className="col-actions" />
      </colgroup>
      <thead>
        <tr aria-rowindex={1}>
          <th scope="col">
            <input
              type="checkbox"
              aria-label={texts.selectAll}
              checked={all}
              ref={(element) => {
                if (element !== null) element.indeterminate = chosen > 0 && !all;
              }}
              onChange={() => selection.set(all ? [] : items.map(({ id }) => id))}
            />
          </th>
          {SORTS.map((name) => (
            <SortHeader key={name} name={name} />
          ))}
          <th scope="col" className="last">
            <span className="visually-hidden">{texts.columns.actions}</span>
          </th>
        </tr>
      </thead>
    </>
  );
}

function SortHeader({ name }: { name: Sort }) {
  const [search, setSearch] = useSearchParams();
  const { sort, descending } = filterOf(search);
  const here = sort === name;
  return (
    <th scope="col" aria-sort={here ? (descending ? "descending" : "ascending") : undefined}>
      <button type="button" className="sort" onClick={() => setSearch(sortedBy(search, name))}>
        {texts.columns[name]}
        <span aria-hidden className="sort-mark">
          {here ? (descending ? "▾" : "▴") : ""}
        </span>
      </button>
    </th>
  );
}
