import { useCallback } from "react";
import { useSearchParams } from "wouter";

/**
 * One value of the page's state, kept in the address: links lead to it, and the browser's "back" undoes it.
 * The fallback is not written down. `replace`: no step of the history (for typing).
 */
export function useUrlState(
  name: string,
  fallback: string,
  { replace = false }: { replace?: boolean } = {},
): [string, (value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const set = useCallback(
    (value: string) => {
      setSearch(
        (before) => {
          const after = new URLSearchParams(before);
          if (value === fallback) after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace },
      );
    },
    [name, fallback, replace, setSearch],
  );
  return [search.get(name) ?? fallback, set];
}
