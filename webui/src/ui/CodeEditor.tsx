import { useEffect, useImperativeHandle, useMemo, useRef, type KeyboardEvent, type Ref } from "react";
import { indented, newLine, outdented, type Edit } from "./indenting";
import "./codeEditor.css";

export interface CodeEditorHandle {
  /** Puts the caret there, both counted from 1, and shows it. */
  goTo: (line: number, column: number) => void;
}

interface CodeEditorProps {
  value: string;
  onChange: (value: string) => void;
  label: string;
  describedBy?: string;
  /** What is wrong in a line, counted from 1. */
  marks: ReadonlyMap<number, string>;
  onSubmit: () => void;
  ref?: Ref<CodeEditorHandle>;
}

const LINE_PX = 20; // as in codeEditor.css

/** A plain field for text of lines: their numbers, marks of problems, and indentation by Tab. */
export function CodeEditor(props: CodeEditorProps) {
  const { value, onChange, label, describedBy, marks, onSubmit, ref } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => value.split("\n"), [value]);

  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const area = field.current;
      if (area === null) return;
      const all = area.value.split("\n");
      const start = all.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
      const at = start + Math.min(column - 1, all[line - 1]?.length ?? 0);
      area.focus();
      area.setSelectionRange(at, start + (all[line - 1]?.length ?? 0));
      area.scrollTop = Math.max(0, (line - 1) * LINE_PX - area.clientHeight / 3);
    },
  }));

  const follow = () => {
    if (gutter.current !== null && field.current !== null) gutter.current.scrollTop = field.current.scrollTop;
  };
  useEffect(follow, [value]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    const { value: text, selectionStart, selectionEnd } = event.currentTarget;
    let edit: Edit;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing) return;
    if (event.key === "Tab")
      edit = (event.shiftKey ? outdented : indented)(text, selectionStart, selectionEnd);
    else if (event.key === "Enter") edit = newLine(text, selectionStart, selectionEnd);
    else return;
    event.preventDefault();
    replace(event.currentTarget, edit, onChange);
  };

  return (
    <div className="code-editor">
      <div ref={gutter} className="code-gutter" aria-hidden>
        {lines.map((_, at) => {
          const mark = marks.get(at + 1);
          return (
            <div key={at} className={mark === undefined ? undefined : "marked"} title={mark}>
              {mark === undefined ? null : <span>●</span>}
              {at + 1}
            </div>
          );
        })}
      </div>
      <textarea
        ref={field}
        value={value}
        aria-label={label}
        aria-describedby={describedBy}
        aria-invalid={marks.size > 0}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        wrap="off"
        onChange={(event) => onChange(event.target.value)}
        onScroll={follow}
        onKeyDown={onKeyDown}
      />
    </div>
  );
}

/** As if typed, so that the browser's undo takes it back. */
function replace(area: HTMLTextAreaElement, edit: Edit, onChange: (value: string) => void): void {
  area.setSelectionRange(edit.from, edit.to);
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- nothing else keeps the history of undo
  const typed = document.execCommand(edit.text === "" ? "delete" : "insertText", false, edit.text);
  if (!typed && area.value.slice(edit.from, edit.to) !== edit.text) {
    area.setRangeText(edit.text);
    onChange(area.value);
  }
  area.setSelectionRange(...edit.selection);
}
