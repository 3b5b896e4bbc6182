import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import type { Objective } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { useColours, type Colours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { paintPoints, type Paint } from "@/ui/plot/paint";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { paretoQuery, staircase, type ParetoSet } from "./paretoData";
import { textAt, type Shared } from "./shared";
import { placesBy } from "./trialMarks";
import { TrialPlot } from "./TrialPlot";

/** The trials by two of the objectives: those that none beats in all objectives stand out, joined by their limit. */
export default function Pareto({ shared }: { shared: Shared }) {
  const words = strings.analysis.pareto;
  const { objectives } = shared;
  const colours = useColours();
  const [first, setFirst] = useUrlState("across", objectives[0]?.name ?? "");
  const [second, setSecond] = useUrlState("up", objectives[1]?.name ?? "");
  const named = (name: string) => objectives.find((objective) => objective.name === name);
  const [x, y] = [named(first) ?? objectives[0], named(second) ?? objectives[1]];
  const answer = useQuery(paretoQuery(shared.id, shared.filter));
  const set = answer.data;
  const front = useMemo(() => rowsOf(shared, set), [shared, set]);
  const over = useMemo(() => frontPaint(shared, front, x, y, colours), [shared, front, x, y, colours]);
  if (x === undefined || y === undefined)
    return <NoChart title={words.title} sentence={words.oneObjective} />;
  if (set === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  if (set.total === 0) return <NoChart title={words.title} sentence={words.none} />;
  const options = objectives.map(({ name }) => [name, name] as const);
  const directed = ({ name, mode }: Objective) => strings.analysis.objective(name, mode === "minimize");
  return (
    <>
      <TrialPlot
        shared={shared}
        title={words.title}
        summary={words.summary(set.total, set.results, objectives.map(directed))}
        x={x.column}
        y={y.column}
        labels={{ x: directed(x), y: directed(y) }}
        told={objectives.map(({ column }) => column)}
        faint
        over={over}
        tools={
          <>
            <Choice label={words.x} value={x.name} onChange={setFirst} options={options} />
            <Choice label={words.y} value={y.name} onChange={setSecond} options={options} />
          </>
        }
      />
      <p className="soft hint">
        {words.legend} {strings.chart.hint}
      </p>
      <SetTable shared={shared} set={set} />
    </>
  );
}

/** The rows of the trials in the set, as far as they are among those that are shown. */
function rowsOf({ columns }: Shared, set: ParetoSet | undefined): Uint32Array {
  const rows = (set?.trials ?? []).map(({ sequence }) => columns.rowOf(sequence));
  return Uint32Array.from(rows.filter((row) => row >= 0));
}

/** The steps, and the set's trials on top of them: filled those that are selected, the others as outlines. */
function frontPaint(
  shared: Shared,
  front: Uint32Array,
  x: Objective | undefined,
  y: Objective | undefined,
  colours: Colours,
): Paint | undefined {
  if (x === undefined || y === undefined) return undefined;
  const places = { x: placesBy(shared, x.column), y: placesBy(shared, y.column, "y") };
  const corners = staircase(
    Array.from(front, (row) => ({ x: places.x[row] ?? NaN, y: places.y[row] ?? NaN })),
    x,
    y,
  );
  const selected = new Set(shared.selected);
  const colour = colours.series[1] ?? colours.ink;
  const looks = [
    { rows: front, colour, size: 11 },
    { rows: front.filter((row) => !selected.has(row)), colour: colours.card, size: 7 },
  ];
  return (context, scales) => {
    const { room } = scales;
    const [begin, end] = [corners[0], corners.at(-1)];
    if (begin === undefined || end === undefined) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(scales.x.at(begin.x), y.mode === "minimize" ? room.top : room.bottom);
    for (const corner of corners) context.lineTo(scales.x.at(corner.x), scales.y.at(corner.y));
    context.lineTo(x.mode === "minimize" ? room.right : room.left, scales.y.at(end.y));
    context.stroke();
    for (const look of looks) paintPoints(context, scales, { ...places, ...look, alpha: 1 });
  };
}

const PAGE = 50;
const MOST_PARAMETERS = 12;

function SetTable({ shared, set }: { shared: Shared; set: ParetoSet }) {
  const words = strings.analysis.pareto;
  const { columns, described, label } = shared;
  const [pages, setPages] = useState(1);
  const parameters = described
    .filter(({ name, count }) => name.startsWith("parameters.") && count > 0)
    .slice(0, MOST_PARAMETERS);
  const shown = set.trials.slice(0, pages * PAGE);
  return (
    <section className="card stack" aria-label={words.table}>
      <h2>{words.table}</h2>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the keyboard scrolls it */}
      <div className="chart-table" role="region" aria-label={words.table} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.trial}</th>
              {set.objectives.map(({ name, mode }) => (
                <th key={name} scope="col" className="number">
                  {strings.analysis.objective(name, mode === "minimize")}
                </th>
              ))}
              {parameters.map(({ name, categories }) => (
                <th key={name} scope="col" className={categories === null ? "number" : ""}>
                  {label(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ trialId, sequence, values }) => (
              <tr key={trialId}>
                <td>
                  <Link href={`/trials/${trialId}`}>{strings.analysis.trial(sequence)}</Link>
                </td>
                {set.objectives.map(({ name }) => (
                  <td key={name} className="number">
                    {formatNumber(values[name])}
                  </td>
                ))}
                {parameters.map(({ name, categories }) => (
                  <td key={name} className={categories === null ? "number" : ""}>
                    {textAt(columns.get(name), columns.rowOf(sequence))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="row">
        <span className="soft number">{words.shown(shown.length, set.total)}</span>
        {shown.length < set.trials.length ? (
          <Button small onClick={() => setPages(pages + 1)}>
            {words.more}
          </Button>
        ) : null}
      </div>
    </section>
  );
}
