import { Link } from "wouter";
import { exportAddress, type TrialsQuestion } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import type { Selection } from "./view";

const text = strings.trials.selection;
const [LEAST_COMPARED, MOST_COMPARED] = [2, 20];

interface SelectionBarProps {
  id: string;
  question: TrialsQuestion;
  selection: Selection;
  total: number;
  onAll: () => void;
  onClear: () => void;
  onKill: () => void;
  onRetry: () => void;
  onTag: () => void;
  onTensorboard: () => void;
}

/** How many trials are selected, and what can be done with them. */
export function SelectionBar({
  id,
  question,
  selection,
  total,
  onAll,
  onClear,
  onKill,
  onRetry,
  onTag,
  onTensorboard,
}: SelectionBarProps) {
  const count = selection.all ? Math.max(0, total - selection.ids.size) : selection.ids.size;
  const ids = selection.all ? [] : [...selection.ids];
  const comparable = ids.length >= LEAST_COMPARED && ids.length <= MOST_COMPARED;
  return (
    <div className="row selection-bar" role="region" aria-label={text.bar}>
      <strong aria-live="polite">{text.count(count)}</strong>
      {selection.all || total <= count ? null : (
        <Button small look="plain" onClick={onAll}>
          {text.all(total)}
        </Button>
      )}
      <span className="grow" />
      {comparable ? (
        <Link href={`/compare?trials=${ids.join(",")}`} className="button small">
          {text.compare}
        </Link>
      ) : (
        <Button small disabled title={text.compareLimit}>
          {text.compare}
        </Button>
      )}
      <Button small onClick={onTag}>
        {strings.annotations.bulk.open}…
      </Button>
      <Button small onClick={onTensorboard}>
        {strings.tensorboard.open}
      </Button>
      <Button small onClick={onRetry}>
        {text.retry}…
      </Button>
      <Button small look="danger" onClick={onKill}>
        {text.kill}…
      </Button>
      {(["csv", "json"] as const).map((format) => (
        <a
          key={format}
          className="button small"
          href={exportAddress(id, format, exported(question, selection), ids)}
          download
        >
          {format === "csv" ? strings.trials.exportCsv : strings.trials.exportJson}
        </a>
      ))}
      <Button small look="plain" onClick={onClear} aria-label={text.clear} title={text.clear}>
        ✕
      </Button>
    </div>
  );
}

/** Of trials that were picked: those, whatever the filter is now. */
function exported(question: TrialsQuestion, { all, ids }: Selection): TrialsQuestion {
  if (!all) return { ...question, filter: "", search: "", statuses: [] };
  if (ids.size === 0) return question;
  const without = `id≠[${[...ids].join(", ")}]`;
  return { ...question, filter: question.filter === "" ? without : `${question.filter}; ${without}` };
}
