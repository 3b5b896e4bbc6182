import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState, type CSSProperties } from "react";
import type { Trial, TrialsQuestion } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import type { TableColumn } from "./columns";
import { Header } from "./Header";
import { DETAIL_HEIGHT, MissingRow, Row, ROW_HEIGHT, type RowActs } from "./Row";
import type { useColumns } from "./useColumns";
import { useTableKeys } from "./useTableKeys";
import { useTrialRows, type ShownRows } from "./useTrialRows";
import { isSelected, type Selection } from "./view";

const text = strings.trials;
const HEAD_HEIGHT = 36;
const FIRST_HEIGHT = 800; // until the table is measured
const OVERSCAN = 8;

interface TrialTableProps extends Omit<RowActs, "onReach" | "onSelect"> {
  id: string;
  question: TrialsQuestion;
  columns: readonly TableColumn[];
  model: ReturnType<typeof useColumns>;
  selection: Selection;
  open: ReadonlySet<string>;
  onSelect: (index: number, trial: Trial, range: boolean, rows: ShownRows) => void;
  onSelectAll: (all: boolean) => void;
  onSort: (column: string) => void;
  onShowAll: () => void;
  /** How many rows there are, and what is wrong with the question. */
  onAnswer: (total: number | undefined, error: unknown, retry: () => void) => void;
}

/** The trials as a table of which only what is in view exists. */
export function TrialTable(props: TrialTableProps) {
  const { id, question, columns, model, selection, open, onSelect, onExpand, onAnswer } = props;
  const box = useRef<HTMLDivElement>(null);
  const [reached, setReached] = useState(0);
  const [span, setSpan] = useState<readonly [number, number]>([0, 30]);
  const rows = useTrialRows(id, question, span[0], span[1]);
  const { total = 0, question: shownQuestion, rowAt, error, retry } = rows;
  useEffect(() => onAnswer(rows.total, error, retry), [rows.total, error]); // eslint-disable-line react-hooks/exhaustive-deps -- `retry` is made anew each time

  const sizeOf = (index: number) => {
    const trial = open.size === 0 ? undefined : rowAt(index);
    return trial !== undefined && open.has(trial.id) ? ROW_HEIGHT + DETAIL_HEIGHT : ROW_HEIGHT;
  };
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => box.current,
    estimateSize: sizeOf,
    overscan: OVERSCAN,
    scrollPaddingStart: HEAD_HEIGHT,
    initialRect: { width: 0, height: FIRST_HEIGHT },
    // The row that has the focus stays, wherever the table is scrolled to.
    rangeExtractor: (range: Range) => {
      const shown = defaultRangeExtractor(range);
      return reached >= total || shown.includes(reached) ? shown : [...shown, reached].sort((a, b) => a - b);
    },
  });
  const { startIndex = 0, endIndex = 30 } = virtual.range ?? {};
  if (startIndex !== span[0] || endIndex !== span[1]) setSpan([startIndex, endIndex]);

  const openAt = virtual
    .getVirtualItems()
    .filter(({ index }) => open.size > 0 && open.has(rowAt(index)?.id ?? ""))
    .map(({ index }) => index)
    .join();
  useEffect(() => virtual.measure(), [virtual, openAt]);
  useEffect(() => {
    virtual.scrollToOffset(0);
    setReached(0);
  }, [virtual, shownQuestion]);

  const select = useCallback(
    (index: number, trial: Trial, range: boolean) =>
      onSelect(index, trial, range, { question: shownQuestion, rowAt }),
    [onSelect, shownQuestion, rowAt],
  );
  const keys = useTableKeys({
    box,
    total,
    trial: rowAt(reached),
    reached,
    open,
    onReach: (index) => {
      setReached(index);
      virtual.scrollToIndex(index);
    },
    onSelect: select,
    onExpand,
  });

  const style: CSSProperties & Record<"--columns" | "--width", string> = {
    "--columns": model.template,
    "--width": `${model.total}px`,
  };
  return (
    <div
      ref={box}
      className="trial-table"
      role="treegrid"
      aria-label={text.table}
      aria-describedby="trial-keys"
      aria-multiselectable
      aria-rowcount={total + 1}
      aria-busy={rows.pending}
      style={style}
      onKeyDown={keys}
      tabIndex={-1}
    >
      <p id="trial-keys" className="visually-hidden">
        {text.keys}
      </p>
      <Header
        headers={model.headers}
        columns={columns}
        question={question}
        allSelected={selection.all && selection.ids.size === 0}
        onSelectAll={props.onSelectAll}
        onSort={props.onSort}
        onWidth={model.setWidth}
      />
      <div role="rowgroup" className="trial-body" style={{ height: `${virtual.getTotalSize()}px` }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const trial = rowAt(index);
          if (trial === undefined)
            return <MissingRow key={index} index={index} top={start} columns={columns} />;
          return (
            <Row
              key={trial.id}
              id={id}
              trial={trial}
              index={index}
              top={start}
              columns={columns}
              selected={isSelected(selection, trial.id)}
              expanded={open.has(trial.id)}
              reached={index === reached}
              onSelect={select}
              onExpand={onExpand}
              onReach={setReached}
              itemsOf={props.itemsOf}
            />
          );
        })}
      </div>
      {rows.total === 0 ? <Empty question={rows.question} onShowAll={props.onShowAll} /> : null}
    </div>
  );
}

function Empty({ question, onShowAll }: { question: TrialsQuestion; onShowAll: () => void }) {
  const narrowed =
    question.filter !== "" ||
    question.search !== "" ||
    question.statuses.length > 0 ||
    question.withoutResult === true;
  return (
    <div className="trial-empty row" role="status">
      <span>{narrowed ? text.noMatch : text.none}</span>
      {narrowed ? (
        <Button small onClick={onShowAll}>
          {text.showAll}
        </Button>
      ) : null}
    </div>
  );
}
