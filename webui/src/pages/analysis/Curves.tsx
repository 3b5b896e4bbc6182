import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { strings } from "@/strings";
import { LEVELS, levelColours, useColours, type Colours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import type { Paint, Scales } from "@/ui/plot/paint";
import type { Hit } from "@/ui/plot/Plot";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import { axisOf } from "@/ui/plot/scale";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { ColourScale } from "./ColourScale";
import { curvesQuery, smoothed, type Curves as Drawn } from "./curveData";
import { CurvesFilter } from "./CurvesFilter";
import { textOf } from "./selection";
import type { Shared } from "./shared";
import { tipOf } from "./trialMarks";

const LINES = ["200", "1000", "3000"];
const WEIGHTS = ["0", "0.5", "0.8", "0.95"];
const POINTS = 200;

/** The intermediate metrics of many trials as lines, above the band in which most of them lie. */
export default function Curves({ shared }: { shared: Shared }) {
  const words = strings.analysis.curves;
  const colours = useColours();
  const [key, setKey] = useUrlState("key", "default");
  const [lines, setLines] = useUrlState("lines", "1000");
  const [weight, setWeight] = useUrlState("smooth", "0");
  const [only, setOnly] = useUrlState("only", "");
  const [index = "", from = "", to = ""] = only.split(",");
  // Only the selected trials' curves are asked for: those of all would hide them.
  const filter = [shared.filter, textOf(shared.brushes)].filter(Boolean).join(";");
  const answer = useQuery(
    curvesQuery(shared.id, { key, filter, lines: Number(lines), points: POINTS, index, from, to }),
  );
  const curves = answer.data;
  const y = useMemo(() => (curves === undefined ? null : smoothed(curves, Number(weight))), [curves, weight]);
  const axes = useMemo(
    () => ({
      x: axisOf(strings.analysis.curves.step, curves?.x ?? []),
      y: axisOf(key === "default" ? strings.analysis.defaultMetric : key, curves?.y ?? []),
    }),
    [curves, key],
  );
  const paint = useMemo(() => painter(shared, curves, y, colours), [shared, curves, y, colours]);
  const find = useMemo(
    () => (at: { x: number; y: number }, scales: Scales) =>
      curves === undefined || y === null ? null : hitOf(shared, curves, y, at, scales),
    [curves, y, shared],
  );
  const tools = (
    <>
      {(curves?.keys.length ?? 0) > 1 ? (
        <Choice
          label={words.key}
          value={key}
          onChange={setKey}
          options={(curves?.keys ?? []).map((one) => [one, one])}
        />
      ) : null}
      <Choice
        label={words.lines}
        value={lines}
        onChange={setLines}
        options={LINES.map((one) => [one, formatNumber(Number(one))])}
      />
      <Choice
        label={words.smooth}
        value={weight}
        onChange={setWeight}
        options={WEIGHTS.map((one) => [one, words.weights[one] ?? one])}
      />
      <CurvesFilter key={only} index={index} from={from} to={to} onChange={setOnly} />
    </>
  );
  if (curves === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  if (curves.total === 0)
    return (
      <>
        <NoChart title={words.title} sentence={only === "" ? words.none : words.noneMatch} />
        {only === "" ? null : <div className="row">{tools}</div>}
      </>
    );
  return (
    <>
      <PlotFigure
        title={words.title}
        summary={words.summary(curves.sequences.length, curves.total)}
        x={axes.x}
        y={axes.y}
        paint={paint}
        find={find}
        tools={tools}
        table={() => ({
          columns: ["sequence", "step", "value"],
          rows: [...curves.sequences].flatMap((sequence, line) =>
            Array.from(
              { length: (curves.starts[line + 1] ?? 0) - (curves.starts[line] ?? 0) },
              (_, point) => {
                const at = (curves.starts[line] ?? 0) + point;
                return [sequence, curves.x[at] ?? null, curves.y[at] ?? null];
              },
            ),
          ),
        })}
      />
      <div className="spread">
        <ColourScale metric={shared.metric} />
        <p className="soft hint">{words.hint}</p>
      </div>
    </>
  );
}

const painter =
  (shared: Shared, curves: Drawn | undefined, y: Float64Array | null, colours: Colours): Paint =>
  (context, scales) => {
    if (curves === undefined || y === null) return;
    paintLines(context, scales, curves, y, shared, colours);
    paintBand(context, scales, curves, colours);
  };

/** Each in the colour of its trial's metric; the best ones on top. */
function paintLines(
  context: CanvasRenderingContext2D,
  scales: Scales,
  curves: Drawn,
  y: Float64Array,
  shared: Shared,
  colours: Colours,
): void {
  const parts: number[][] = Array.from({ length: LEVELS }, () => []);
  curves.sequences.forEach((sequence: number, line: number) => {
    parts[shared.metric.levels[shared.columns.rowOf(sequence)] ?? 0]?.push(line);
  });
  context.lineWidth = curves.sequences.length > 300 ? 1 : 1.5;
  context.globalAlpha = Math.max(0.15, Math.min(0.9, 12 / Math.sqrt(curves.sequences.length + 1)));
  levelColours(colours.dark).forEach((colour, level) => {
    context.strokeStyle = context.fillStyle = colour;
    for (const line of parts[level] ?? []) {
      const [first, end] = [curves.starts[line] ?? 0, curves.starts[line + 1] ?? 0];
      context.beginPath();
      for (let at = first; at < end; at += 1)
        context.lineTo(scales.x.at(curves.x[at] ?? NaN), scales.y.at(y[at] ?? NaN));
      context.stroke();
      if (end - first === 1)
        context.fillRect(scales.x.at(curves.x[first] ?? NaN) - 1.5, scales.y.at(y[first] ?? NaN) - 1.5, 3, 3);
    }
  });
  context.globalAlpha = 1;
}

/** Where eight of ten trials are, and the middle one. */
function paintBand(
  context: CanvasRenderingContext2D,
  scales: Scales,
  { band }: Drawn,
  colours: Colours,
): void {
  const count = band.x.length;
  const to = (at: number, values: ArrayLike<number>) =>
    context.lineTo(scales.x.at(band.x[at] ?? NaN), scales.y.at(values[at] ?? NaN));
  context.beginPath();
  for (let at = 0; at < count; at += 1) to(at, band.high);
  for (let at = count - 1; at >= 0; at -= 1) to(at, band.low);
  context.closePath();
  context.fillStyle = context.strokeStyle = colours.ink;
  context.globalAlpha = 0.1;
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.setLineDash([5, 3]);
  context.beginPath();
  for (let at = 0; at < count; at += 1) to(at, band.middle);
  context.stroke();
  context.setLineDash([]);
}

function hitOf(
  shared: Shared,
  curves: Drawn,
  y: Float64Array,
  at: { x: number; y: number },
  scales: Scales,
): Hit | null {
  let [line, point, distance] = [-1, -1, 144];
  for (let one = 0; one < curves.sequences.length; one += 1) {
    for (let place = curves.starts[one] ?? 0; place < (curves.starts[one + 1] ?? 0); place += 1) {
      const [right, down] = [scales.x.at(curves.x[place] ?? NaN) - at.x, scales.y.at(y[place] ?? NaN) - at.y];
      const far = right * right + down * down;
      if (far < distance) [line, point, distance] = [one, place, far];
    }
  }
  const row = shared.columns.rowOf(curves.sequences[line] ?? -1);
  if (row < 0) return null;
  return {
    x: scales.x.at(curves.x[point] ?? NaN),
    y: scales.y.at(y[point] ?? NaN),
    tip: tipOf(shared, row),
    onPick: () => shared.open(row),
    draw: (context) => {
      context.beginPath();
      for (let place = curves.starts[line] ?? 0; place < (curves.starts[line + 1] ?? 0); place += 1)
        context.lineTo(scales.x.at(curves.x[place] ?? NaN), scales.y.at(y[place] ?? NaN));
      context.stroke();
    },
  };
}
