/** All trials of an experiment, as a table. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { readTagsAgain, tagsQuery } from "@/data/annotations";
import { objectivesOf, profileQuery } from "@/data/experiment";
import { LIVE_STATUSES, readSchemaAgain, readTrials, schemaQuery, type Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import type { MenuItem } from "@/ui/Menu";
import { complain, say } from "@/ui/toasts";
import { asCommandLine, asJson, asPython, asYaml } from "@/ui/trial/spelled";
import { useTitle } from "@/ui/useTitle";
import { catalogue, defaultColumns } from "./columns";
import { isFilterError } from "./FilterBox";
import { filterColumns } from "./filterText";
import { SelectionBar } from "./SelectionBar";
import { Toolbar } from "./Toolbar";
import { TrialDialogs } from "./TrialDialogs";
import { TrialTable } from "./TrialTable";
import { useColumns } from "./useColumns";
import type { ShownRows } from "./useTrialRows";
import { MOST_SELECTED, useView, writtenSelection, type Selection } from "./view";
import "./trials.css";

const text = strings.trials;

interface Answer {
  total: number | undefined;
  error: unknown;
  retry: () => void;
}

const NO_ANSWER: Answer = { total: undefined, error: null, retry: () => undefined };

export default function Trials({ id }: { id: string }) {
  const client = useQueryClient();
  const profile = useQuery(profileQuery(id));
  const schema = useQuery(schemaQuery(id));
  const { data: tags } = useQuery(tagsQuery(id));
  useTitle(strings.navigation.trials, profile.data?.name || id);
  const config = profile.data?.config;
  const objectives = useMemo(() => objectivesOf(config ?? {}), [config]);
  const view = useView(
    id,
    useMemo(
      () => defaultColumns(schema.data?.columns ?? [], objectives, (tags ?? []).length > 0),
      [schema.data, objectives, tags],
    ),
  );
  const { question, selection, write } = view;
  const [answer, setAnswer] = useState<Answer>(NO_ANSWER);
  const onAnswer = useCallback(
    (total: number | undefined, error: unknown, retry: () => void) => setAnswer({ total, error, retry }),
    [],
  );
  const all = useMemo(() => catalogue(schema.data?.columns ?? [], objectives), [schema.data, objectives]);
  const named = useMemo(() => filterColumns(schema.data?.columns ?? [], tags ?? []), [schema.data, tags]);
  const columns = useMemo(
    () => view.columns.map((name) => all.get(name)).filter((column) => column !== undefined),
    [all, view.columns],
  );
  const model = useColumns(id, columns);
  const select = useSelect(id, view.selection, write);
  const items = useItems(write);
  const { open } = view;
  const expand = useCallback(
    (trial: Trial) => {
      const next = new Set(open);
      if (!next.delete(trial.id)) next.add(trial.id);
      write({ open: [...next].join(",") });
    },
    [open, write],
  );
  const sort = useCallback(
    (name: string) => {
      const next = question.sort !== name ? name : question.descending ? "sequence" : `-${name}`;
      write({ sort: next === "sequence" ? null : next }, true);
    },
    [question, write],
  );
  const selectAll = (every: boolean) => write(writtenSelection({ all: every, ids: new Set() }));
  const showAll = () => write({ filter: null, search: null, status: null, result: null }, true);
  const counts = profile.data?.counts ?? {};
  const dialog = (name: string, trialId = "") =>
    write({ dialog: trialId === "" ? name : `${name}:${trialId}` });

  return (
    <div className="trials-page">
      <Toolbar
        id={id}
        question={question}
        columns={named}
        counts={counts}
        withoutResult={profile.data?.withoutResult ?? 0}
        total={answer.total}
        error={answer.error}
        onWrite={write}
        onDialog={dialog}
        onOpenFilter={() => {
          readSchemaAgain(client, id);
          readTagsAgain(client, id);
        }}
      />
      {answer.error === null || isFilterError(answer.error) ? null : (
        <Failure error={answer.error} onRetry={answer.retry} />
      )}
      {selection.all || selection.ids.size > 0 ? (
        <SelectionBar
          id={id}
          question={question}
          selection={selection}
          total={answer.total ?? 0}
          onAll={() => selectAll(true)}
          onClear={() => selectAll(false)}
          onKill={() => dialog("kill")}
          onRetry={() => dialog("retry")}
          onTag={() => dialog("tag")}
          onTensorboard={() => dialog("tensorboard")}
        />
      ) : null}
      <TrialTable
        id={id}
        question={question}
        columns={columns}
        model={model}
        selection={selection}
        open={open}
        onSelect={select}
        onSelectAll={selectAll}
        onExpand={expand}
        onSort={sort}
        onShowAll={showAll}
        onAnswer={onAnswer}
        itemsOf={items}
      />
      <TrialDialogs
        id={id}
        view={view}
        total={answer.total ?? 0}
        all={all}
        named={named}
        schema={schema}
        onResetWidths={model.resetWidths}
      />
    </div>
  );
}

/** Selects a row, or, with shift, all from the one selected before. */
function useSelect(id: string, selection: Selection, write: ReturnType<typeof useView>["write"]) {
  const [anchor, setAnchor] = useState(0);
  return useCallback(
    (index: number, trial: Trial, range: boolean, rows: ShownRows) => {
      setAnchor(index);
      const ids = new Set(selection.ids);
      if (!range) {
        if (!ids.delete(trial.id)) ids.add(trial.id);
        tell(selection.all, ids);
        return;
      }
      const [from, to] = [Math.min(anchor, index), Math.max(anchor, index)];
      if (to - from >= MOST_SELECTED) {
        complain(new Error(text.selection.tooMany(MOST_SELECTED)));
        return;
      }
      readRange(id, rows, from, to).then((found) => {
        for (const one of found)
          if (selection.all) ids.delete(one.id);
          else ids.add(one.id);
        tell(selection.all, ids);
      }, complain);

      function tell(all: boolean, chosen: ReadonlySet<string>) {
        if (chosen.size > MOST_SELECTED) complain(new Error(text.selection.tooMany(MOST_SELECTED)));
        else write(writtenSelection({ all, ids: chosen }));
      }
    },
    [id, anchor, selection, write],
  );
}

/** The trials of these rows, of which some may not have been in view yet. */
async function readRange(id: string, rows: ShownRows, from: number, to: number): Promise<readonly Trial[]> {
  const known: Trial[] = [];
  for (let index = from; index <= to; index += 1) {
    const trial = rows.rowAt(index);
    if (trial !== undefined) known.push(trial);
  }
  if (known.length === to - from + 1) return known;
  const trials = await readTrials(id, rows.question);
  return trials.slice(from, to + 1);
}

/** What can be done with one trial. */
function useItems(write: ReturnType<typeof useView>["write"]) {
  const [, navigate] = useLocation();
  return useCallback(
    (trial: Trial): readonly MenuItem[] => {
      const dialog = (name: string) => () => write({ dialog: `${name}:${trial.id}` });
      const copy = (spell: (parameters: unknown) => string) => () => {
        navigator.clipboard.writeText(spell(trial.parameters)).then(() => say(text.row.copied), complain);
      };
      const none = trial.parameters === null;
      return [
        { label: text.row.open, onSelect: () => navigate(`/trials/${trial.id}`) },
        { label: text.row.intermediate, onSelect: dialog("curve") },
        { label: text.row.tag, onSelect: dialog("tag") },
        { label: text.row.clone, onSelect: dialog("clone"), disabled: none },
        {
          label: text.row.retry,
          onSelect: dialog("retry"),
          disabled: trial.status !== "FAILED" && text.row.retryWhy,
        },
        {
          label: text.row.kill,
          onSelect: dialog("kill"),
          danger: true,
          disabled: !LIVE_STATUSES.includes(trial.status) && text.row.killWhy,
        },
        {
          label: text.row.lost,
          onSelect: dialog("lost"),
          danger: true,
          disabled: trial.status !== "UNKNOWN" && text.row.lostWhy,
        },
        { label: text.row.copyJson, onSelect: copy(asJson), disabled: none },
        { label: text.row.copyPython, onSelect: copy(asPython), disabled: none },
        { label: text.row.copyYaml, onSelect: copy(asYaml), disabled: none },
        { label: text.row.copyCommandLine, onSelect: copy(asCommandLine), disabled: none },
        { label: text.row.filterTo, onSelect: () => write({ status: trial.status }, true) },
      ];
    },
    [write, navigate],
  );
}
