import { useMemo } from "react";
import { strings } from "@/strings";
import { LEVELS, levelColours, useColours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { MANY_POINTS, type Paint, type Scales } from "@/ui/plot/paint";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { ColourScale } from "./ColourScale";
import { levelsBetween } from "./contour";
import { bestRow } from "./metric";
import { byRank } from "./rank";
import { textAt, type Shared } from "./shared";
import { placesBy } from "./trialMarks";
import { TrialPlot } from "./TrialPlot";

/** Two parameters against each other, coloured by the metric or its rank: as points, means or contours. */
export default function Scatter({ shared }: { shared: Shared }) {
  const { described, metric, selected, columns } = shared;
  const parameters = described.filter(({ name, count }) => name.startsWith("parameters.") && count > 0);
  const [first, second] = [parameters[0]?.name ?? "", parameters[1]?.name ?? parameters[0]?.name ?? ""];
  const [x, setX] = useUrlState("x", first);
  const [y, setY] = useUrlState("y", second);
  const [look, setLook] = useUrlState("as", selected.length > MANY_POINTS ? "heat" : "points");
  const colours = useColours();
  const heat = useMemo((): Paint | undefined => {
    if (look !== "heat") return undefined;
    const [xs, ys] = [placesBy(shared, x), placesBy(shared, y, "y")];
    const palette = levelColours(colours.dark);
    return (context, scales) => {
      const { left, top, right, bottom } = scales.room;
      context.fillStyle = colours.card;
      context.fillRect(left, top, right - left, bottom - top);
      const wide = Math.max(1, Math.ceil((right - left) / CELL));
      const sums = new Float64Array(wide * Math.max(1, Math.ceil((bottom - top) / CELL)));
      const counts = new Uint32Array(sums.length);
      for (const row of shared.selected) {
        if (Number.isNaN(metric.values[row] ?? NaN)) continue;
        const [across, up] = [scales.x.at(xs[row] ?? NaN) - left, scales.y.at(ys[row] ?? NaN) - top];
        if (!(across >= 0 && across < right - left && up >= 0 && up < bottom - top)) continue;
        const cell = Math.floor(up / CELL) * wide + Math.floor(across / CELL);
        sums[cell] = (sums[cell] ?? 0) + (metric.levels[row] ?? 0);
        counts[cell] = (counts[cell] ?? 0) + 1;
      }
      counts.forEach((count, cell) => {
        if (count === 0) return;
        context.fillStyle = palette[Math.min(LEVELS - 1, Math.round((sums[cell] ?? 0) / count))] ?? "";
        context.fillRect(left + (cell % wide) * CELL, top + Math.floor(cell / wide) * CELL, CELL, CELL);
      });
    };
  }, [shared, x, y, look, metric, colours]);
  const contour = useMemo((): Paint | undefined => {
    if (look !== "contour") return undefined;
    const [xs, ys] = [placesBy(shared, x), placesBy(shared, y, "y")];
    const palette = levelColours(colours.dark);
    return (context, scales) => paintContour(context, scales, shared, { xs, ys, palette });
  }, [shared, x, y, look, colours]);
  const ranked = useMemo(
    () => (look === "rank" ? { ...shared, metric: byRank(shared.metric, shared.shown, LEVELS) } : shared),
    [shared, look],
  );
  const best = useMemo(() => bestRow(metric, selected), [metric, selected]);
  if (parameters.length === 0)
    return <NoChart title={strings.analysis.scatter.title} sentence={strings.analysis.noParameters} />;
  const options = parameters.map(({ name }) => [name, shared.label(name)] as const);
  const logOf = (name: string) => described.find((one) => one.name === name)?.log ?? false;
  const bestText = best < 0 ? "–" : `${textAt(columns.get(x), best)}, ${textAt(columns.get(y), best)}`;
  return (
    <>
      <TrialPlot
        shared={ranked}
        byMetric
        title={strings.analysis.scatter.title}
        summary={strings.analysis.scatter.summary(
          shared.label(x),
          shared.label(y),
          selected.length,
          bestText,
        )}
        x={x}
        y={y}
        log={{ x: logOf(x), y: logOf(y) }}
        over={heat}
        under={contour}
        faint={look === "contour"}
        tools={
          <>
            <Choice label={strings.analysis.scatter.x} value={x} onChange={setX} options={options} />
            <Choice label={strings.analysis.scatter.y} value={y} onChange={setY} options={options} />
            <Choice
              label={strings.analysis.scatter.show}
              value={look}
              onChange={setLook}
              options={[
                ["points", strings.analysis.scatter.points],
                ["rank", strings.analysis.scatter.rank],
                ["heat", strings.analysis.scatter.heat],
                ["contour", strings.analysis.scatter.contour],
              ]}
            />
          </>
        }
      />
      <div className="spread">
        <ColourScale metric={metric} />
        <p className="soft hint">{strings.chart.hint}</p>
      </div>
    </>
  );
}

const CELL = 8; // pixels
const MOST_SPOTS = 1500; // trials that contours are drawn from: an even choice of more
const BANDS = 12;

/** Fills the room between the trials with bands of equal results. */
function paintContour(
  context: CanvasRenderingContext2D,
  scales: Scales,
  { selected, metric }: Shared,
  { xs, ys, palette }: { xs: ArrayLike<number>; ys: ArrayLike<number>; palette: readonly string[] },
): void {
  const { left, top, right, bottom } = scales.room;
  const rows = selected.filter((row) => !Number.isNaN(metric.values[row] ?? NaN));
  const every = Math.max(1, Math.ceil(rows.length / MOST_SPOTS));
  const spots = Array.from(rows)
    .filter((_, at) => at % every === 0)
    .map((row) => ({
      x: scales.x.at(xs[row] ?? NaN) - left,
      y: scales.y.at(ys[row] ?? NaN) - top,
      level: metric.levels[row] ?? 0,
    }))
    .filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
  const [wide, high] = [Math.ceil((right - left) / CELL), Math.ceil((bottom - top) / CELL)];
  const band = (LEVELS - 1) / BANDS;
  levelsBetween(spots, { wide, high, cell: CELL }).forEach((level, cell) => {
    if (Number.isNaN(level)) return;
    context.fillStyle = palette[Math.min(LEVELS - 1, Math.round(Math.round(level / band) * band))] ?? "";
    context.fillRect(left + (cell % wide) * CELL, top + Math.floor(cell / wide) * CELL, CELL, CELL);
  });
}
