import { lazy, Suspense, useId, useMemo, useState } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Failure } from "@/ui/Failure";
import { Folded } from "@/ui/Folded";
import { Menu } from "@/ui/Menu";
import { Tabs } from "@/ui/Tabs";
import { useUrlState } from "@/ui/useUrlState";
import { sentenceOf } from "@/api/client";
import { Choice } from "./Choice";
import { InSight } from "./InSight";
import { SelectionBar } from "./SelectionBar";
import type { Shared } from "./shared";
import { useShared } from "./useShared";
import "./analysis.css";

const CHARTS = {
  history: lazy(() => import("./History")),
  pareto: lazy(() => import("./Pareto")),
  parallel: lazy(() => import("./parallel/Parallel")),
  curves: lazy(() => import("./Curves")),
  duration: lazy(() => import("./Duration")),
  importance: lazy(() => import("./Importance")),
  edf: lazy(() => import("./Edf")),
  slices: lazy(() => import("./Slices")),
  scatter: lazy(() => import("./Scatter")),
  matrix: lazy(() => import("./Matrix")),
  timeline: lazy(() => import("./Timeline")),
  rungs: lazy(() => import("./Rungs")),
  stopped: lazy(() => import("./Stopped")),
  lineage: lazy(() => import("./Lineage")),
} as const;
type ChartName = keyof typeof CHARTS;
type Tab = ChartName | "grid";
const NAMES = Object.keys(CHARTS) as ChartName[];
/** What the grid shows if nothing else was chosen. */
const USUAL = "history,parallel,importance,scatter,edf,timeline";
const OF_PARAMETERS: readonly ChartName[] = ["pareto", "parallel", "slices", "scatter", "matrix", "rungs"];

/** All charts of an experiment, over one shared filter and selection. */
export default function Analysis({ id }: { id: string }) {
  const [chosen, setTab] = useUrlState("tab", "grid");
  const [listed, setListed] = useUrlState("charts", USUAL, { replace: true });
  const panel = useId();
  const [names, setNames] = useState<readonly string[]>([]);
  const { shared, total, failure, filterFailure, retry, controls, metrics, objectives, halves } = useShared(
    id,
    names,
  );
  const offered = NAMES.filter(
    (known) => (known !== "pareto" || objectives.length > 1) && (known !== "rungs" || halves),
  );
  const tab: Tab = offered.find((known) => known === chosen) ?? "grid";
  const inGrid = offered.filter((known) => listed.split(",").includes(known));
  const drawn = tab === "grid" ? inGrid : [tab];
  const parameters = useMemo(
    () => shared?.described.map(({ name }) => name).filter((name) => name.startsWith("parameters.")) ?? [],
    [shared?.described],
  );
  const columns = useMemo(
    () => [...parameters, ...objectives.map(({ column }) => column)],
    [parameters, objectives],
  );
  const wanted = drawn.some((name) => OF_PARAMETERS.includes(name)) ? columns : names;
  if (wanted !== names && wanted.join() !== names.join()) setNames(wanted);

  if (failure !== null && shared === null) return <Failure error={failure} onRetry={retry} />;
  if (total === 0) return <p className="soft">{strings.analysis.noTrials}</p>;
  return (
    <div className="stack analysis">
      <div className="row analysis-controls">
        <Folded label={strings.common.filters} count={controls.filter === "" ? 0 : 1}>
          <Choice
            label={strings.analysis.metric}
            value={controls.metricName}
            onChange={controls.setMetric}
            options={metrics}
          />
          <Choice
            label={strings.analysis.direction}
            value={controls.mode}
            onChange={controls.setMode}
            options={[
              ["maximize", strings.analysis.maximise],
              ["minimize", strings.analysis.minimise],
            ]}
          />
          <FilterText
            key={controls.filter}
            text={controls.filter}
            onChange={controls.setFilter}
            failure={filterFailure}
          />
        </Folded>
      </div>
      {shared === null ? null : <SelectionBar shared={shared} />}
      <Tabs
        label={strings.analysis.charts}
        tabs={(["grid", ...offered] as const).map((known) => ({
          id: known,
          label: strings.analysis.tabs[known],
        }))}
        value={tab}
        onChange={setTab}
        panel={panel}
      />
      <div id={panel} role="tabpanel" aria-label={strings.analysis.tabs[tab]} className="stack">
        {tab === "grid" ? (
          <>
            <div className="row">
              <Menu
                small
                label={`${strings.analysis.grid.choose} ▾`}
                items={offered.map((name) => ({
                  label: strings.analysis.tabs[name],
                  checked: inGrid.includes(name),
                  onSelect: () => setListed(toggled(inGrid, name, offered).join(",")),
                }))}
              />
            </div>
            <div className="analysis-grid">
              {inGrid.map((name) => (
                <section key={name} aria-label={strings.analysis.tabs[name]} className="analysis-cell">
                  <Button
                    small
                    look="plain"
                    className="analysis-open"
                    aria-label={strings.analysis.grid.open(strings.analysis.tabs[name])}
                    title={strings.analysis.grid.open(strings.analysis.tabs[name])}
                    onClick={() => setTab(name)}
                  >
                    {strings.analysis.tabs[name]} ⤢
                  </Button>
                  <InSight>
                    <Panel shared={shared} name={name} filtered={controls.filter !== ""} />
                  </InSight>
                </section>
              ))}
            </div>
          </>
        ) : (
          <Panel shared={shared} name={tab} filtered={controls.filter !== ""} />
        )}
      </div>
    </div>
  );
}

/** The charts of the grid after this one was added or taken away, in the order in which they are offered. */
const toggled = (shown: readonly ChartName[], name: ChartName, offered: readonly ChartName[]) =>
  offered.filter((known) => (known === name) !== shown.includes(known));

function Panel({ shared, name, filtered }: { shared: Shared | null; name: ChartName; filtered: boolean }) {
  const Chart = CHARTS[name];
  if (shared === null) return <p className="soft">{strings.common.loading}</p>;
  if (shared.shown.length === 0 && filtered) return <p className="soft">{strings.analysis.noneMatch}</p>;
  return (
    <Suspense fallback={<p className="soft">{strings.common.loading}</p>}>
      <Chart shared={shared} />
    </Suspense>
  );
}

function FilterText({
  text,
  onChange,
  failure,
}: {
  text: string;
  onChange: (text: string) => void;
  failure: Error | null;
}) {
  const [typed, setTyped] = useState(text);
  const error = useId();
  return (
    <form
      className="row analysis-filter"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(typed.trim());
      }}
    >
      <label className="row choice">
        <span className="soft">{strings.analysis.filter}</span>
        <input
          className="input mono"
          value={typed}
          placeholder={strings.analysis.filterHint}
          aria-invalid={failure !== null}
          aria-describedby={error}
          onChange={(event) => setTyped(event.target.value)}
        />
      </label>
      <Button type="submit" disabled={typed.trim() === text}>
        {strings.analysis.apply}
      </Button>
      <span id={error} className="field-error" role="alert">
        {failure === null ? "" : sentenceOf(failure)}
      </span>
    </form>
  );
}
