import { useQueryClient } from "@tanstack/react-query";
import { useId, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { answerOf, api } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { CodeEditor, type CodeEditorHandle } from "@/ui/CodeEditor";
import { Confirm } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { marksOf, Problems, type ConfigProblem } from "@/ui/Problems";
import { say } from "@/ui/toasts";
import type { Draft } from "./draft";
import { Plan } from "./Plan";
import { TEMPLATES, type TemplateName } from "./templates";
import { useChecked } from "./useChecked";
import "./new.css";

const texts = strings.newExperiment;
const NAMES: readonly TemplateName[] = ["local", "tpe", "remote"];
const NO_PROBLEMS: readonly ConfigProblem[] = [];

interface WritingProps {
  draft: Draft;
  onDraft: (draft: Draft | null) => void;
  original?: { name: string; draft: Draft } | undefined;
}

/** The configuration, what the server says of it, and what would start. */
export function Writing({ draft, onDraft, original }: WritingProps) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const editor = useRef<CodeEditorHandle>(null);
  const hint = useId();
  const { checked, current, error } = useChecked(draft);
  const [starting, setStarting] = useState(false);
  const [refused, setRefused] = useState<unknown>(null);

  const problems = checked?.problems ?? NO_PROBLEMS;
  const marks = useMemo(() => marksOf(problems), [problems]);
  const ready = current && checked?.plan !== null && checked !== undefined && !starting;

  const change = (next: Draft | null) => {
    setRefused(null);
    onDraft(next);
  };
  const start = async () => {
    if (!ready) return;
    setStarting(true);
    try {
      const body = { text: draft.text, cwd: draft.cwd.trim() || null };
      const { id } = await answerOf(api.POST("/api/v1/experiments/from-text", { body }));
      onDraft(null);
      void client.invalidateQueries({ queryKey: ["list"] });
      say(texts.started(checked.plan?.name || id));
      navigate(`/experiments/${id}`);
    } catch (failure) {
      setRefused(failure);
      setStarting(false);
    }
  };
  const jump = ({ line, column }: ConfigProblem) => editor.current?.goTo(line ?? 1, column ?? 1);

  return (
    <div className="stack new-page">
      <div className="row">
        <h1>{texts.title}</h1>
        {original === undefined ? null : <span className="soft">{texts.cloneOf(original.name)}</span>}
      </div>
      <div className="new-columns">
        <div className="stack">
          <Beginnings draft={draft} onDraft={change} original={original} />
          <CodeEditor
            ref={editor}
            value={draft.text}
            onChange={(text) => change({ ...draft, text })}
            label={texts.editor}
            describedBy={hint}
            marks={marks}
            onSubmit={() => void start()}
          />
          <p id={hint} className="soft new-hint">
            {texts.editorHint}
          </p>
          <DirectoryField value={draft.cwd} onChange={(cwd) => change({ ...draft, cwd })} />
        </div>
        <div className="stack">
          <section className="card stack">
            <h2>{texts.problems}</h2>
            <div role="status" className={current ? undefined : "new-old"}>
              {error !== null ? (
                <Failure error={error} />
              ) : draft.text.trim() === "" ? (
                <p className="soft">{texts.empty}</p>
              ) : checked === undefined ? (
                <p className="soft">{texts.checking}</p>
              ) : problems.length === 0 ? (
                <p>{texts.noProblems}</p>
              ) : (
                <Problems problems={problems} onJump={jump} />
              )}
            </div>
          </section>
          <section className={current ? "card stack" : "card stack new-old"}>
            <h2>{texts.plan}</h2>
            {checked?.plan == null ? (
              <p className="soft">{texts.planNone}</p>
            ) : (
              <Plan plan={checked.plan} onJump={jump} />
            )}
            {refused === null ? null : <Failure error={refused} />}
            <div className="row">
              <Button look="primary" disabled={!ready} onClick={() => void start()}>
                {starting ? texts.starting : texts.start}
              </Button>
              <span className="soft">
                {problems.length > 0
                  ? texts.notYet(problems.length)
                  : draft.text.trim() !== "" && !current && error === null
                    ? texts.checking
                    : ""}
              </span>
            </div>
          </section>
        </div>
      </div>
    </div>
  );
}

function Beginnings({ draft, onDraft, original }: WritingProps) {
  const [asked, setAsked] = useState<{ name: string; draft: Draft } | null>(null);
  const known = [...Object.values(TEMPLATES), original?.draft.text ?? "", ""];
  const take = (name: string, next: Draft) => {
    if (known.includes(draft.text)) onDraft(next);
    else setAsked({ name, draft: next });
  };
  return (
    <div className="row" role="group" aria-label={texts.templates}>
      <span className="soft">{texts.templates}</span>
      {NAMES.map((name) => (
        <Button
          key={name}
          small
          onClick={() => take(texts.template[name], { ...draft, text: TEMPLATES[name] })}
        >
          {texts.template[name]}
        </Button>
      ))}
      {original === undefined || original.draft.text === draft.text ? null : (
        <Button small onClick={() => take(original.name, original.draft)}>
          {texts.cloneTakesYours}
        </Button>
      )}
      {asked === null ? null : (
        <Confirm
          title={texts.replaceTitle}
          text={texts.replaceText(asked.name)}
          action={texts.replace}
          onClose={() => setAsked(null)}
          onConfirm={() => {
            onDraft(asked.draft);
            setAsked(null);
          }}
        />
      )}
    </div>
  );
}

function DirectoryField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [id, hint] = [useId(), useId()];
  return (
    <div className="field">
      <label htmlFor={id}>{texts.directory}</label>
      <input
        id={id}
        className="input mono"
        value={value}
        aria-describedby={hint}
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
      <span id={hint} className="soft new-hint">
        {texts.directoryHint}
      </span>
    </div>
  );
}
