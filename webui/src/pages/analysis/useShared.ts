import { useQuery } from "@tanstack/react-query";
import { useCallback, useDeferredValue, useMemo } from "react";
import { useLocation } from "wouter";
import { answerOf, api } from "@/api/client";
import { columnsQuery, type Columns } from "@/data/columns";
import { objectivesOf, profileQuery, type Objective } from "@/data/experiment";
import { numbersOf } from "@/data/packed";
import { filteredQuery, schemaQuery } from "@/data/schema";
import { complain } from "@/ui/toasts";
import { isRecord } from "@/ui/trial/space";
import { useUrlState } from "@/ui/useUrlState";
import { metricOf } from "./metric";
import { metricsOf } from "./objectives";
import { brushesOf, rowsIn, textOf, withBrush } from "./selection";
import { labelOf, type Brush, type Described, type Shared } from "./shared";

const ALWAYS = ["status", "value", "ended", "duration"];
const NONE: readonly Described[] = [];
const NO_OBJECTIVES: readonly Objective[] = [];

/** What the page's address says, and the columns that go with it. */
export function useShared(id: string, wanted: readonly string[]) {
  const profile = useQuery(profileQuery(id));
  const config = profile.data?.config;
  const schema = useQuery(schemaQuery(id));
  const [metricName, setMetric] = useUrlState("metric", "value");
  const objectives = useMemo(() => (config === undefined ? NO_OBJECTIVES : objectivesOf(config)), [config]);
  const label = useCallback((name: string) => labelOf(name, objectives[0]?.name), [objectives]);
  const wish = objectives.find(({ column }) => column === metricName)?.mode;
  const [mode, setMode] = useUrlState("mode", wish ?? profile.data?.optimizeMode ?? "maximize");
  const [filter, setFilter] = useUrlState("filter", "");
  const [text, setText] = useUrlState("selected", "", { replace: true });
  const described = schema.data?.columns ?? NONE;
  const categories = useMemo(
    () => new Map(described.map(({ name, categories }) => [name, categories ?? undefined])),
    [described],
  );
  const brushes = useMemo(() => brushesOf(text, (name) => categories.get(name)), [text, categories]);
  const names = useMemo(() => {
    const known = (name: string) => name !== "sequence" && categories.has(name);
    return [...new Set([...ALWAYS, metricName, ...wanted, ...brushes.keys()])].filter(known);
  }, [wanted, brushes, metricName, categories]);
  const read = useQuery({ ...columnsQuery(id, names), enabled: names.length > 0 });
  const matching = useQuery({ ...filteredQuery(id, filter), enabled: filter !== "" });
  const columns = useDeferredValue(read.data);

  const shown = useMemo(
    () => rowsOf(columns, filter === "" ? null : matching.data),
    [columns, filter, matching.data],
  );
  const metric = useMemo(() => {
    const column = columns?.get(metricName);
    const values = column === undefined ? new Float32Array(0) : numbersOf(column);
    return metricOf(metricName, label(metricName), values, shown, mode === "minimize");
  }, [columns, metricName, label, shown, mode]);
  const selected = useMemo(
    () => (columns === undefined ? shown : rowsIn(columns, shown, brushes)),
    [columns, shown, brushes],
  );
  const brush = useCallback(
    (changes: Readonly<Record<string, Brush | null>>) =>
      setText(
        textOf(Object.entries(changes).reduce((all, [name, one]) => withBrush(all, name, one), brushes)),
      ),
    [brushes, setText],
  );
  const [, navigate] = useLocation();
  const open = useCallback(
    (row: number) => {
      const sequence = columns?.sequence[row];
      if (sequence === undefined) return;
      trialIds(id, `sequence:${sequence}`, 1).then(([trial]) => {
        if (trial !== undefined) navigate(`/trials/${trial}`);
      }, complain);
    },
    [columns, id, navigate],
  );
  const shared: Shared | null = useMemo(
    () =>
      columns === undefined || config === undefined
        ? null
        : {
            ...{ id, columns, described, objectives, metric, mode, filter },
            ...{ shown, brushes, selected, label, brush, open },
          },
    [
      id,
      config,
      columns,
      described,
      objectives,
      metric,
      mode,
      filter,
      shown,
      brushes,
      selected,
      label,
      brush,
      open,
    ],
  );
  return {
    shared,
    total: schema.data?.total,
    failure: profile.error ?? schema.error ?? read.error,
    filterFailure: filter === "" ? null : matching.error,
    retry: () => void Promise.all([profile.refetch(), schema.refetch(), read.refetch()]),
    controls: { metricName, setMetric, mode, setMode, filter, setFilter },
    objectives,
    /** Whether trials can be stopped or promoted at rungs. */
    halves:
      isRecord(config?.assessor) ||
      isRecord(config?.advisor) ||
      described.some(({ name, count }) => name === "parameters.TRIAL_BUDGET" && count > 0),
    metrics: metricsOf(described, objectives),
  };
}

/** The ids of the first trials that match. */
export async function trialIds(id: string, filter: string, limit: number): Promise<string[]> {
  const params = { path: { id }, query: { filter, limit } };
  const { trials } = await answerOf(api.GET("/api/v1/experiments/{id}/trials", { params }));
  return trials.map((trial) => trial.id);
}

function rowsOf(columns: Columns | undefined, sequences: Uint32Array | null | undefined): Uint32Array {
  if (columns === undefined || sequences === undefined) return new Uint32Array(0);
  if (sequences === null) return Uint32Array.from(columns.sequence, (_, row) => row);
  return sequences.map((sequence) => columns.rowOf(sequence)).filter((row) => row !== 0xffffffff);
}
