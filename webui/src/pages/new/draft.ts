/** What has been written and not started yet: it survives a reload of the page, in its tab. */
import { useCallback, useState } from "react";

export interface Draft {
  text: string;
  cwd: string;
}

const keyOf = (clone: string | null) => (clone === null ? "nnimgr.new" : `nnimgr.new.${clone}`);

function read(key: string): Draft | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(key) ?? "null");
    if (typeof kept !== "object" || kept === null || !("text" in kept) || !("cwd" in kept)) return null;
    return typeof kept.text === "string" && typeof kept.cwd === "string"
      ? { text: kept.text, cwd: kept.cwd }
      : null;
  } catch {
    return null; // no storage, or not ours
  }
}

/** null: nothing has been written. Of each experiment that is cloned there is a draft of its own. */
export function useDraft(clone: string | null): [Draft | null, (draft: Draft | null) => void] {
  const key = keyOf(clone);
  const [held, setHeld] = useState(() => ({ key, draft: read(key) }));
  const draft = held.key === key ? held.draft : read(key);
  const put = useCallback(
    (next: Draft | null) => {
      try {
        if (next === null) sessionStorage.removeItem(key);
        else sessionStorage.setItem(key, JSON.stringify(next));
      } catch {
        // it lasts as long as the page then
      }
      setHeld({ key, draft: next });
    },
    [key],
  );
  return [draft, put];
}
