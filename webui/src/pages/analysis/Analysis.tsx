import { lazy, Suspense, useId, useMemo, useState } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Failure } from "@/ui/Failure";
import { Tabs } from "@/ui/Tabs";
import { useUrlState } from "@/ui/useUrlState";
import { sentenceOf } from "@/api/client";
import { Choice } from "./Choice";
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
  slices: lazy(() => import("./Slices")),
  scatter: lazy(() => import("./Scatter")),
  timeline: lazy(() => import("./Timeline")),
  rungs: lazy(() => import("./Rungs")),
  stopped: lazy(() => import("./Stopped")),
} as const;
type Tab = keyof typeof CHARTS;
const TABS = Object.keys(CHARTS) as Tab[];
const OF_PARAMETERS: readonly Tab[] = ["pareto", "parallel", "slices", "scatter", "rungs"];

/** All charts of an experiment, over one shared filter and selection. */
export default function Analysis({ id }: { id: string }) {
  const [chosen, setTab] = useUrlState("tab", "history");
  const panel = useId();
  const [names, setNames] = useState<readonly string[]>([]);
  const { shared, total, failure, filterFailure, retry, controls, metrics, objectives, halves } = useShared(
    id,
    names,
  );
  const tabs = TABS.filter(
    (known) => (known !== "pareto" || objectives.length > 1) && (known !== "rungs" || halves),
  );
  const tab = tabs.find((known) => known === chosen) ?? "history";
  const parameters = useMemo(
    () => shared?.described.map(({ name }) => name).filter((name) => name.startsWith("parameters.")) ?? [],
    [shared?.described],
  );
  const columns = useMemo(
    () => [...parameters, ...objectives.map(({ column }) => column)],
    [parameters, objectives],
  );
  const wanted = OF_PARAMETERS.includes(tab) ? columns : names;
  if (wanted !== names && wanted.join() !== names.join()) setNames(wanted);
  const Chart = CHARTS[tab];

  if (failure !== null && shared === null) return <Failure error={failure} onRetry={retry} />;
  if (total === 0) return <p className="soft">{strings.analysis.noTrials}</p>;
  return (
    <div className="stack analysis">
      <div className="row analysis-controls">
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
      </div>
      {shared === null ? null : <SelectionBar shared={shared} />}
      <Tabs
        label={strings.analysis.charts}
        tabs={tabs.map((known) => ({ id: known, label: strings.analysis.tabs[known] }))}
        value={tab}
        onChange={setTab}
        panel={panel}
      />
      <div id={panel} role="tabpanel" aria-label={strings.analysis.tabs[tab]} className="stack">
        <Suspense fallback={<p className="soft">{strings.common.loading}</p>}>
          <Panel shared={shared} Chart={Chart} filtered={controls.filter !== ""} />
        </Suspense>
      </div>
    </div>
  );
}

function Panel({
  shared,
  Chart,
  filtered,
}: {
  shared: Shared | null;
  Chart: (typeof CHARTS)[Tab];
  filtered: boolean;
}) {
  if (shared === null) return <p className="soft">{strings.common.loading}</p>;
  if (shared.shown.length === 0 && filtered) return <p className="soft">{strings.analysis.noneMatch}</p>;
  return <Chart shared={shared} />;
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
