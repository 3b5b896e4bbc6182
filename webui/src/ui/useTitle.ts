import { useEffect } from "react";
import { strings } from "@/strings";

/** The title of the browser's tab. */
export function useTitle(...parts: (string | undefined)[]): void {
  const title = [...parts.filter((part) => part !== undefined && part !== ""), strings.common.product].join(
    " · ",
  );
  useEffect(() => {
    document.title = title;
  }, [title]);
}
