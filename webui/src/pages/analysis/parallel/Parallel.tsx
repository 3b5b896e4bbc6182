import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { strings } from "@/strings";
import { Figure, NoChart } from "@/ui/chart/Figure";
import { Failure } from "@/ui/Failure";
import { Menu } from "@/ui/Menu";
import type { PlotPicture } from "@/ui/plot/Plot";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "../Choice";
import { ColourScale } from "../ColourScale";
import { rowsIn, withBrush, type Brushes } from "../selection";
import { type Brush, type Shared } from "../shared";
import { trialTable } from "../trialMarks";
import { looksOf, moved, textOfLooks, type AxisLook } from "./axes";
import { allBinsQuery, useLatestBins, type Question } from "./bins";
import { MOST_LINES } from "./paint";
import { ParallelPlot } from "./ParallelPlot";
import "./parallel.css";

const TOPS = [1, 5, 20, 100];

/** A line per trial across its parameters; each axis is brushed, moved, turned round, logarithmic or left out. */
export default function Parallel({ shared }: { shared: Shared }) {
  const { id, described, metric, columns, shown, filter } = shared;
  const [text, setText] = useUrlState("axes", "", { replace: true });
  const looks = useMemo(() => looksOf(text, described, metric.name), [text, described, metric.name]);
  const setLooks = (after: readonly AxisLook[]) => setText(textOfLooks(after));
  const plot = useRef<PlotPicture>(null);
  // What is being brushed is drawn here at once; the other charts and the address learn of it at the end.
  const [pulled, setPulled] = useState<{ name: string; brush: Brush | null } | null>(null);
  const brushes = useMemo(
    () => (pulled === null ? shared.brushes : withBrush(shared.brushes, pulled.name, pulled.brush)),
    [shared.brushes, pulled],
  );
  const selected = useMemo(
    () => (pulled === null ? shared.selected : rowsIn(columns, shown, brushes)),
    [pulled, shared.selected, columns, shown, brushes],
  );
  const question = useMemo(
    (): Question => ({
      axes: looks.map(({ name, log }) => ({ name, log })),
      brushes: {},
      filter,
      metric: metric.name,
    }),
    [looks, filter, metric.name],
  );
  const all = useQuery({ ...allBinsQuery(id, question), enabled: shown.length > 0 });
  const some = useMemo(
    () =>
      brushes.size > 0 && selected.length > MOST_LINES ? { ...question, brushes: plain(brushes) } : null,
    [brushes, selected.length, question],
  );
  const latest = useLatestBins(id, some, columns.revision);
  const bins = some === null ? all.data : latest.answer?.bins;
  const failure = all.error ?? (some === null ? null : latest.failure);

  if (shown.length === 0)
    return <NoChart title={strings.analysis.parallel.title} sentence={strings.analysis.noTrials} />;
  const hidden = described.filter(
    ({ name, count }) => count > 0 && !looks.some((look) => look.name === name),
  );
  const top = topOf(shared);
  return (
    <Figure
      title={strings.analysis.parallel.title}
      summary={strings.analysis.parallel.summary(
        selected.length,
        shown.length,
        looks.length,
        selected.length > MOST_LINES,
      )}
      table={() =>
        trialTable(
          shared,
          looks.map(({ name }) => name),
        )
      }
      picture={() => plot.current?.picture()}
      svg={async () => (await plot.current?.svg()) ?? null}
      tools={
        <>
          <Choice
            label={strings.analysis.parallel.top}
            value={String(top)}
            onChange={(share) => shared.brush({ [metric.name]: topBrush(shared, Number(share)) })}
            options={[...new Set([...TOPS, top])].map((share) => [
              String(share),
              share === 0 ? strings.analysis.parallel.custom : strings.analysis.parallel.percent(share),
            ])}
          />
          <Menu
            small
            label={strings.analysis.parallel.addAxis}
            items={
              hidden.length === 0
                ? [{ label: strings.analysis.parallel.allShown, onSelect: () => undefined, disabled: true }]
                : hidden.map(({ name }) => ({
                    label: shared.label(name),
                    onSelect: () => setLooks([...looks, { name, log: false, inverted: false }]),
                  }))
            }
          />
          {text === "" ? null : (
            <button type="button" className="button small" onClick={() => setText("")}>
              {strings.analysis.parallel.reset}
            </button>
          )}
        </>
      }
    >
      {failure === null ? null : <Failure error={failure} onRetry={() => void all.refetch()} />}
      <ParallelPlot
        shared={shared}
        looks={looks}
        brushes={brushes}
        selected={selected}
        all={all.data}
        bins={bins}
        ref={plot}
        onLooks={setLooks}
        onMove={(from, to) => setLooks(moved(looks, from, to))}
        onBrush={(name, brush, done) => {
          setPulled(done ? null : { name, brush });
          if (done) shared.brush({ [name]: brush });
        }}
      />
      <div className="spread">
        <ColourScale metric={metric} />
        <p className="soft hint">{strings.analysis.parallel.hint}</p>
      </div>
    </Figure>
  );
}

const plain = (brushes: Brushes): Question["brushes"] =>
  Object.fromEntries(
    [...brushes].map(([name, brush]) => [
      name,
      "range" in brush ? { range: [brush.range[0], brush.range[1]] } : { values: [...brush.values] },
    ]),
  );

/** The best trials as a range of the metric: so it holds in every chart. */
function topBrush({ metric, shown }: Shared, percent: number): Brush | null {
  if (percent >= 100 || metric.count === 0) return null;
  const values = Float64Array.from(shown, (row) => metric.values[row] ?? NaN)
    .filter((value) => !Number.isNaN(value))
    .sort();
  const most = Math.max(1, Math.ceil((values.length * percent) / 100));
  const limit = (metric.minimise ? values[most - 1] : values[values.length - most]) ?? NaN;
  const room = Math.abs(limit) * 1e-7; // the server's numbers have more digits than ours
  const rounded = (value: number) => Number(value.toPrecision(9)); // as the address has it
  return metric.minimise
    ? { range: [rounded(metric.best - room), rounded(limit + room)] }
    : { range: [rounded(limit - room), rounded(metric.best + room)] };
}

/** Which of the shares is selected now; 0: another one. */
function topOf(shared: Shared): number {
  const brush = shared.brushes.get(shared.metric.name);
  if (brush === undefined) return 100;
  const same = TOPS.find((share) => JSON.stringify(topBrush(shared, share)) === JSON.stringify(brush));
  return same ?? 0;
}
