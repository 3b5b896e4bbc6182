import { useEffect, useState } from "react";
import { exportAddress, type Column, type TrialsQuestion } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Folded } from "@/ui/Folded";
import { Menu } from "@/ui/Menu";
import { FilterBox } from "./FilterBox";
import { StatusChips } from "./StatusChips";
import { ViewsMenu } from "./ViewsMenu";

const text = strings.trials;
const TYPING_MS = 250;

interface ToolbarProps {
  id: string;
  question: TrialsQuestion;
  columns: readonly Column[];
  counts: Readonly<Record<string, number>>;
  withoutResult: number;
  total: number | undefined;
  error: unknown;
  onWrite: (parts: Readonly<Record<string, string | null>>, step?: boolean) => void;
  onDialog: (name: string) => void;
  onOpenFilter: () => void;
}

/** What narrows the trials down, and what is shown of them. */
export function Toolbar({
  id,
  question,
  columns,
  counts,
  withoutResult,
  total,
  error,
  onWrite,
  onDialog,
  onOpenFilter,
}: ToolbarProps) {
  const every = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const save = (format: "csv" | "json") => () => {
    location.assign(exportAddress(id, format, question));
  };
  return (
    <div className="trials-toolbar">
      <div className="spread">
        <StatusChips
          counts={counts}
          chosen={question.statuses}
          onChange={(statuses) => onWrite({ status: statuses.join(",") }, true)}
          withoutResult={withoutResult}
          onlyThose={question.withoutResult ?? false}
          onThose={(only) => onWrite({ result: only ? "none" : null }, true)}
        />
        <div className="row">
          <span className="soft number">{total === undefined ? "" : text.count(total, every)}</span>
          <ViewsMenu id={id} onWrite={onWrite} onDialog={onDialog} />
          <Button onClick={() => onDialog("columns")}>{text.chooser.open}…</Button>
          <Button onClick={() => onDialog("tensorboard")}>{strings.tensorboard.open}</Button>
          <Menu
            label={text.export}
            items={[
              { label: text.exportMatching(total ?? 0, text.exportCsv), onSelect: save("csv") },
              { label: text.exportMatching(total ?? 0, text.exportJson), onSelect: save("json") },
            ]}
          />
        </div>
      </div>
      <Folded
        label={strings.common.filters}
        count={[question.search, question.filter].filter((each) => each !== "").length}
      >
        <div className="trials-find">
          <SearchBox search={question.search} onSearch={(search) => onWrite({ search })} />
          <FilterBox
            filter={question.filter}
            columns={columns}
            error={error}
            onApply={(filter) => onWrite({ filter }, true)}
            onFocus={onOpenFilter}
            onBuild={() => onDialog("builder")}
          />
        </div>
      </Folded>
    </div>
  );
}

/** Searches a moment after the last key. */
function SearchBox({ search, onSearch }: { search: string; onSearch: (search: string) => void }) {
  const [typed, setTyped] = useState(search);
  const [applied, setApplied] = useState(search);
  if (applied !== search) {
    setApplied(search);
    setTyped(search);
  }
  useEffect(() => {
    if (typed.trim() === search) return;
    const timer = setTimeout(() => onSearch(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, search, onSearch]);
  return (
    <input
      type="search"
      className="input"
      data-search
      aria-label={text.searchLabel}
      placeholder={text.searchHint}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}
