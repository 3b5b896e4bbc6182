import { useState } from "react";
import { Link, useLocation } from "wouter";
import { categoryText } from "@/data/packed";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { formatNumber } from "@/ui/format";
import { complain } from "@/ui/toasts";
import { RangeDialog } from "./RangeDialog";
import { textOf, type Brush } from "./selection";
import { type Shared } from "./shared";
import { trialIds } from "./useShared";

const MOST_COMPARED = 20;

/** How many trials are selected and by what, and what can be done with them. */
export function SelectionBar({ shared }: { shared: Shared }) {
  const { id, columns, shown, selected, brushes, filter, brush, label } = shared;
  const [edited, setEdited] = useState<string | null>(null);
  const [, navigate] = useLocation();
  const text = [filter, textOf(brushes)].filter(Boolean).join(";");
  const compare = () => {
    trialIds(id, text, MOST_COMPARED).then((ids) => navigate(`/compare?trials=${ids.join(",")}`), complain);
  };
  return (
    <div className="card row selection-bar">
      <span role="status" className="number">
        {brushes.size === 0
          ? strings.analysis.nothingSelected(shown.length, columns.rows)
          : strings.analysis.selected(selected.length, shown.length)}
      </span>
      {[...brushes].map(([name, one]) => (
        <span key={name} className="chip">
          <button type="button" className="chip-text" title={name} onClick={() => setEdited(name)}>
            {label(name)} {brushText(one)}
          </button>
          <button
            type="button"
            className="chip-remove"
            aria-label={strings.analysis.remove(label(name))}
            onClick={() => brush({ [name]: null })}
          >
            ✕
          </button>
        </span>
      ))}
      <span className="row selection-actions">
        <Button small onClick={() => setEdited("")}>
          {strings.analysis.addRange}
        </Button>
        {brushes.size === 0 ? null : (
          <>
            <Button
              small
              onClick={() => brush(Object.fromEntries([...brushes.keys()].map((name) => [name, null])))}
            >
              {strings.analysis.clear}
            </Button>
            <Link href={`/trials?filter=${encodeURIComponent(text)}`} className="button small">
              {strings.analysis.openInTrials}
            </Link>
            <Button
              small
              disabled={selected.length < 2 || selected.length > MOST_COMPARED}
              title={selected.length > MOST_COMPARED ? strings.analysis.compareLimit : undefined}
              onClick={compare}
            >
              {strings.analysis.compare}
            </Button>
          </>
        )}
      </span>
      {edited === null ? null : <RangeDialog shared={shared} name={edited} onClose={() => setEdited(null)} />}
    </div>
  );
}

function brushText(brush: Brush): string {
  if ("range" in brush) return brush.range.map(formatNumber).join(" … ");
  return brush.values.map(categoryText).join(", ");
}
