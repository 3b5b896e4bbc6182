import { STATUSES, type TrialStatus } from "@/data/trials";
import { strings } from "@/strings";

interface StatusChipsProps {
  counts: Readonly<Record<string, number>>;
  chosen: readonly TrialStatus[];
  onChange: (chosen: readonly TrialStatus[]) => void;
  /** How many trials have succeeded without a usable result, and whether only those are shown. */
  withoutResult: number;
  onlyThose: boolean;
  onThose: (only: boolean) => void;
}

/** A switch for each status that a trial has, with how many have it. */
export function StatusChips({
  counts,
  chosen,
  onChange,
  withoutResult,
  onlyThose,
  onThose,
}: StatusChipsProps) {
  const shown = STATUSES.filter((status) => (counts[status] ?? 0) > 0 || chosen.includes(status));
  return (
    <div className="row chips" role="group" aria-label={strings.trials.statuses}>
      {shown.map((status) => {
        const pressed = chosen.includes(status);
        return (
          <button
            key={status}
            type="button"
            className="chip"
            aria-pressed={pressed}
            onClick={() => onChange(pressed ? chosen.filter((one) => one !== status) : [...chosen, status])}
          >
            {status} <span className="number">{(counts[status] ?? 0).toLocaleString("en")}</span>
          </button>
        );
      })}
      {withoutResult > 0 || onlyThose ? (
        <button
          type="button"
          className="chip"
          aria-pressed={onlyThose}
          title={strings.trials.noResultHint}
          onClick={() => onThose(!onlyThose)}
        >
          {strings.trials.noResult} <span className="number">{withoutResult.toLocaleString("en")}</span>
        </button>
      ) : null}
    </div>
  );
}
