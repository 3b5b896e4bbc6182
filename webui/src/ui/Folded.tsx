import type { ReactNode } from "react";
import { useNarrow } from "./useNarrow";

/** Shows its content, on a phone only when it is unfolded. `count`: how many of the fields are set. */
export function Folded({ label, count, children }: { label: string; count: number; children: ReactNode }) {
  const narrow = useNarrow();
  if (!narrow) return children;
  return (
    <details className="folded">
      <summary>{count === 0 ? label : `${label} (${count})`}</summary>
      <div className="folded-content">{children}</div>
    </details>
  );
}
