import { useId, useRef, useState, type KeyboardEvent } from "react";
import { ApiError } from "@/api/client";
import type { Column } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { completionsAt, type Completion } from "./filterText";

const text = strings.trials;

interface FilterBoxProps {
  filter: string;
  columns: readonly Column[];
  error: unknown;
  onApply: (filter: string) => void;
  onFocus: () => void;
  onBuild: () => void;
}

/** The filter as text, with completions of names and values, and what is wrong with it at its place. */
export function FilterBox({ filter, columns, error, onApply, onFocus, onBuild }: FilterBoxProps) {
  const [typed, setTyped] = useState(filter);
  const [applied, setApplied] = useState(filter);
  if (applied !== filter) {
    setApplied(filter);
    setTyped(filter); // changed elsewhere: by the builder, the browser's "back", …
  }
  const apply = (next: string) => onApply(next.trim());
  const problem = typed.trim() === filter ? problemOf(error) : null;
  return (
    <form
      className="filter-box"
      onSubmit={(event) => {
        event.preventDefault();
        apply(typed);
      }}
    >
      <div className="filter-line">
        <FilterInput
          typed={typed}
          columns={columns}
          problem={problem}
          onType={setTyped}
          onApply={apply}
          onFocus={onFocus}
        />
        <Button type="submit" disabled={typed.trim() === filter}>
          {text.filterApply}
        </Button>
        {filter === "" && typed === "" ? null : (
          <Button
            look="plain"
            aria-label={text.filterClear}
            title={text.filterClear}
            onClick={() => {
              setTyped("");
              apply("");
            }}
          >
            ✕
          </Button>
        )}
        <Button onClick={onBuild}>{text.filterBuild}</Button>
      </div>
      {problem === null ? null : <FilterProblem filter={filter} problem={problem} />}
    </form>
  );
}

interface FilterFault {
  message: string;
  position: number | null;
}

function problemOf(error: unknown): FilterFault | null {
  if (!(error instanceof ApiError)) return null;
  const problem = error.problems.find(({ field }) => field === "filter" || field.endsWith(".filter"));
  if (problem === undefined) return null;
  const { position } = problem;
  return { message: problem.message, position: typeof position === "number" ? position : null };
}

/** Whether an error is about the filter, so that it stands beside it. */
export function isFilterError(error: unknown): boolean {
  return problemOf(error) !== null;
}

function FilterProblem({ filter, problem }: { filter: string; problem: FilterFault }) {
  const at = problem.position;
  return (
    <div className="filter-problem" role="alert" id="filter-problem">
      {at === null ? null : (
        <code aria-hidden>
          {filter.slice(0, at)}
          <mark>{filter.slice(at, at + 1) || " "}</mark>
          {filter.slice(at + 1)}
        </code>
      )}
      <span>{problem.message}</span>
    </div>
  );
}

interface FilterInputProps {
  typed: string;
  columns: readonly Column[];
  problem: FilterFault | null;
  onType: (text: string) => void;
  onApply: (text: string) => void;
  onFocus: () => void;
}

function FilterInput({ typed, columns, problem, onType, onApply, onFocus }: FilterInputProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [caret, setCaret] = useState<number | null>(null); // null: no completions are shown
  const [marked, setMarked] = useState(-1);
  const found = caret === null ? null : completionsAt(typed, caret, columns);
  const options = found?.options ?? [];

  const pick = (option: Completion) => {
    if (found === null) return;
    const next = typed.slice(0, found.from) + option.text + typed.slice(found.to);
    const at = found.from + option.text.length;
    onType(next);
    setCaret(at);
    setMarked(-1);
    requestAnimationFrame(() => input.current?.setSelectionRange(at, at));
  };
  const keys = (event: KeyboardEvent<HTMLInputElement>) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const option = options[marked];
    if (step !== undefined) {
      if (caret === null) setCaret(event.currentTarget.selectionStart);
      else if (options.length > 0) setMarked((marked + step + options.length) % options.length);
    } else if (event.key === "Escape" && caret !== null) setCaret(null);
    else if ((event.key === "Enter" || event.key === "Tab") && option !== undefined) pick(option);
    else if (event.key === "Enter") {
      setCaret(null);
      onApply(typed);
    } else return;
    event.preventDefault();
  };
  return (
    <div className="filter-input">
      <input
        ref={input}
        className="input mono"
        role="combobox"
        aria-label={text.filterLabel}
        aria-expanded={options.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={marked >= 0 ? `${id}-${marked}` : undefined}
        aria-autocomplete="list"
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : "filter-problem"}
        placeholder={text.filterHint}
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onFocus={onFocus}
        onBlur={() => setCaret(null)}
        onChange={(event) => {
          onType(event.target.value);
          setCaret(event.target.selectionStart);
          setMarked(-1);
        }}
        onClick={(event) => setCaret(event.currentTarget.selectionStart)}
        onKeyDown={keys}
      />
      <ul
        id={`${id}-list`}
        role="listbox"
        aria-label={text.filterSuggestions}
        className="completions"
        hidden={options.length === 0}
      >
        {options.map((option, at) => (
          // The combobox has the keys; this is for the pointer.
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events
          <li
            key={option.text}
            id={`${id}-${at}`}
            role="option"
            aria-selected={at === marked}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => pick(option)}
          >
            <code>{option.text}</code>
            <span className="soft">{option.hint}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
