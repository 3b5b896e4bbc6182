import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useMemo, useRef, useState } from "react";
import { answerOf, api } from "@/api/client";
import { profileQuery } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { CodeEditor, type CodeEditorHandle } from "@/ui/CodeEditor";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { marksOf, Problems, type ConfigProblem } from "@/ui/Problems";
import { say } from "@/ui/toasts";
import "./change.css";

const text = strings.change;

export type TextField = "searchSpace" | "searchSpaceConstraints" | "tuner";
type Texts = Readonly<Partial<Record<TextField, string>>>;

/** A field that is edited as a text. */
export interface EditedField {
  name: TextField;
  label: string;
  hint?: string;
  present: string;
}

interface ChangeDialogProps {
  id: string;
  title: string;
  explanation: string;
  /** The sentence that says that it was done. */
  done: string;
  fields: readonly EditedField[];
  onClose: () => void;
}

/** What is written, and its sending to the server. */
function useChange({ id, done, fields, onClose }: ChangeDialogProps) {
  const client = useQueryClient();
  const [begun] = useState(fields); // what the experiment has meanwhile does not replace what is being written
  const [texts, setTexts] = useState<Texts>(() =>
    Object.fromEntries(begun.map(({ name, present }) => [name, present])),
  );
  const changed: Texts = Object.fromEntries(
    begun.flatMap(({ name, present }) => (texts[name] === present ? [] : [[name, texts[name] ?? ""]])),
  );
  const applying = useMutation({
    mutationFn: (body: Texts) =>
      answerOf(api.POST("/api/v1/experiments/{id}/change-from-text", { params: { path: { id } }, body })),
    onSuccess: ({ problems }) => {
      if (problems.length > 0) return;
      void client.invalidateQueries({ queryKey: profileQuery(id).queryKey });
      say(done);
      onClose();
    },
  });
  const nothing = Object.keys(changed).length === 0;
  return {
    begun,
    texts,
    nothing,
    applying,
    problems: applying.data?.problems ?? [],
    write: (name: TextField, value: string) => {
      setTexts((before) => ({ ...before, [name]: value }));
      applying.reset();
    },
    apply: () => {
      if (!nothing && !applying.isPending) applying.mutate(changed);
    },
  };
}

/** Fields of a running experiment as texts. The server checks them, and its errors are shown at their lines. */
export function ChangeDialog(props: ChangeDialogProps) {
  const { title, explanation, onClose } = props;
  const { begun, texts, nothing, applying, problems, write, apply } = useChange(props);
  const cancel = useRef<HTMLButtonElement>(null);
  const leave = () => {
    // Tab indents, so Escape is the way out of a field; it must not lose what is written there.
    if (document.activeElement instanceof HTMLTextAreaElement) cancel.current?.focus();
    else onClose();
  };
  const others = problems.filter((problem) => !begun.some(({ name }) => concerns(problem, name)));
  return (
    <Dialog
      title={title}
      onClose={leave}
      footer={
        <>
          <Button ref={cancel} onClick={onClose}>
            {strings.common.cancel}
          </Button>
          <Button
            look="primary"
            disabled={nothing || applying.isPending}
            title={nothing ? text.unchanged : undefined}
            onClick={apply}
          >
            {applying.isPending ? text.applying : text.apply}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p className="soft">{explanation}</p>
        {begun.map((field) => (
          <FieldEditor
            key={field.name}
            field={field}
            small={begun.length > 1}
            value={texts[field.name] ?? ""}
            problems={problems.filter((problem) => concerns(problem, field.name))}
            onChange={(value) => write(field.name, value)}
            onSubmit={apply}
          />
        ))}
        <p className="soft">{text.editorHint}</p>
        {others.length === 0 ? null : (
          <div role="alert">
            <Problems problems={others} onJump={() => undefined} />
          </div>
        )}
        {applying.isError ? <Failure error={applying.error} /> : null}
      </div>
    </Dialog>
  );
}

/** Whether a problem is about this field or a part of it. */
const concerns = ({ field }: ConfigProblem, name: TextField) =>
  field !== null && new RegExp(`^${name}([.[]|$)`).test(field);

interface FieldEditorProps {
  field: EditedField;
  small: boolean;
  value: string;
  problems: readonly ConfigProblem[];
  onChange: (value: string) => void;
  onSubmit: () => void;
}

function FieldEditor({ field, small, value, problems, onChange, onSubmit }: FieldEditorProps) {
  const editor = useRef<CodeEditorHandle>(null);
  const hint = useId();
  const marks = useMemo(() => marksOf(problems), [problems]);
  return (
    <section
      className={small && field.name !== "searchSpace" ? "change-field short" : "change-field"}
      aria-label={field.label}
    >
      <h3>{field.label}</h3>
      {field.hint === undefined ? null : (
        <p id={hint} className="soft">
          {field.hint}
        </p>
      )}
      <CodeEditor
        ref={editor}
        value={value}
        onChange={onChange}
        label={field.label}
        {...(field.hint === undefined ? {} : { describedBy: hint })}
        marks={marks}
        onSubmit={onSubmit}
      />
      {problems.length === 0 ? null : (
        <div role="alert">
          <Problems
            problems={problems}
            onJump={({ line, column }) => editor.current?.goTo(line ?? 1, column ?? 1)}
          />
        </div>
      )}
    </section>
  );
}
