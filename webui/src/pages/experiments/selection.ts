/** Which experiments are selected: in the address, in short where it is all that are shown. */
import { useCallback, useMemo } from "react";
import type { Summary } from "@/data/experiments";
import { useUrlState } from "@/ui/useUrlState";

const ALL = "all";

export interface Selection {
  items: readonly Summary[];
  ids: ReadonlySet<string>;
  set: (ids: Iterable<string>) => void;
}

/** What is selected and no longer shown counts no more. */
export function useSelection(shown: readonly Summary[]): Selection {
  const [text, setText] = useUrlState("selected", "", { replace: true });
  const items = useMemo(() => {
    if (text === "") return [];
    if (text === ALL) return shown;
    const named = new Set(text.split(","));
    return shown.filter((item) => named.has(item.id));
  }, [text, shown]);
  const ids = useMemo(() => new Set(items.map((item) => item.id)), [items]);
  const set = useCallback(
    (wanted: Iterable<string>) => {
      const list = [...new Set(wanted)];
      setText(list.length > 1 && list.length === shown.length ? ALL : list.join(","));
    },
    [setText, shown.length],
  );
  return { items, ids, set };
}
