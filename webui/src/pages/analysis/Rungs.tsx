import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { strings } from "@/strings";
import { useColours, type Colours } from "@/ui/chart/colours";
import { NoChart, type Cell } from "@/ui/chart/Figure";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { nearest, paintPoints, type Paint, type Scales } from "@/ui/plot/paint";
import type { Area, Hit } from "@/ui/plot/Plot";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import { axisOf } from "@/ui/plot/scale";
import { RungTable } from "./RungTable";
import {
  acrossOf,
  beatenBy,
  chainOf,
  isWorse,
  lookOf,
  nameOf,
  rungsQuery,
  type Fate,
  type Look,
  type Rungs,
} from "./rungData";
import { textOf } from "./selection";
import type { Shared } from "./shared";
import { tipOf } from "./trialMarks";

const words = strings.analysis.rungs;

/** The rungs of successive halving as columns: who came to each, who went on, who was stopped there and by whom. */
export default function RungsChart({ shared }: { shared: Shared }) {
  const colours = useColours();
  const filter = [shared.filter, textOf(shared.brushes)].filter(Boolean).join(";");
  const answer = useQuery(rungsQuery(shared.id, filter));
  const rungs = answer.data;
  const across = useMemo(() => (rungs === undefined ? new Float64Array(0) : acrossOf(rungs)), [rungs]);
  const main = shared.label("value");
  const axes = useMemo(
    () => ({
      x: axisOf(words.axis[rungs?.by ?? "step"], [], { categories: (rungs?.rungs ?? []).map(nameOf) }),
      y: axisOf(main, rungs?.value ?? []),
    }),
    [rungs, main],
  );
  const paint = useMemo(() => painter(rungs, across, colours), [rungs, across, colours]);
  const find = useMemo(() => finder(shared, rungs, across, colours), [shared, rungs, across, colours]);
  if (rungs === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  if (rungs.total === 0) return <NoChart title={words.title} sentence={words.none} />;
  const brush = ({ x, y }: Area) => {
    const [first, last] = [rungs.rungs[Math.max(0, Math.ceil(x[0]))], rungs.rungs.at(Math.floor(x[1]))];
    if (first === undefined || last === undefined || first.from > last.to) return;
    shared.brush({ [BUDGET]: { range: [first.from, last.to] }, value: { range: y } });
  };
  return (
    <>
      <PlotFigure
        title={words.title}
        summary={summaryOf(rungs)}
        x={axes.x}
        y={axes.y}
        paint={paint}
        find={find}
        {...(rungs.by === "budget" ? { onBrush: brush } : {})}
        table={() => ({
          columns: ["rung", "sequence", "value", "fate", "why", "better"],
          rows: rungs.fates.map((_, point) => cellsOf(rungs, point)),
        })}
      />
      <div className="spread">
        <Legend rungs={rungs} colours={colours} />
        <p className="soft hint">{rungs.by === "budget" ? strings.chart.hint : words.hint}</p>
      </div>
      <RungTable rungs={rungs} open={(sequence) => shared.open(shared.columns.rowOf(sequence))} />
    </>
  );
}

const BUDGET = "parameters.TRIAL_BUDGET";

function summaryOf({ by, rungs, total, lines }: Rungs): string {
  const sum = (fate: Fate) => rungs.reduce((all, rung) => all + rung[fate], 0);
  return words.summary[by](rungs.length, total, sum("promoted"), sum("stopped"), lines);
}

/** Never by colour alone. Painted in this order. */
const LOOKS: readonly { look: Look; sign: string; mark: "square" | "cross"; size: number }[] = [
  { look: "left", sign: "·", mark: "square", size: 5 },
  { look: "running", sign: "□", mark: "square", size: 8 },
  { look: "promoted", sign: "■", mark: "square", size: 6 },
  { look: "completed", sign: "◼", mark: "square", size: 9 },
  { look: "stopped", sign: "✕", mark: "cross", size: 7 },
];

const colourOf = (look: Look, colours: Colours): string =>
  ({
    left: colours.soft,
    running: colours.series[2] ?? colours.ink,
    promoted: colours.series[0] ?? colours.ink,
    completed: colours.good,
    stopped: colours.bad,
  })[look];

function painter(rungs: Rungs | undefined, across: Float64Array, colours: Colours): Paint {
  if (rungs === undefined) return () => undefined;
  const { value, next } = rungs;
  const points = LOOKS.map(
    ({ look }) => new Uint32Array([...across.keys()].filter((point) => lookOf(rungs, point) === look)),
  );
  const many = across.length > 1000;
  return (context, scales) => {
    context.strokeStyle = colourOf("promoted", colours);
    context.globalAlpha = many ? 0.18 : 0.45;
    context.lineWidth = 1;
    context.beginPath();
    next.forEach((after, point) => {
      if (after < 0 || Number.isNaN(value[point]) || Number.isNaN(value[after])) return;
      context.moveTo(scales.x.at(across[point] ?? NaN), scales.y.at(value[point] ?? NaN));
      context.lineTo(scales.x.at(across[after] ?? NaN), scales.y.at(value[after] ?? NaN));
    });
    context.stroke();
    context.globalAlpha = 1;
    LOOKS.forEach(({ look, mark, size }, index) => {
      const rows = points[index] ?? new Uint32Array(0);
      const place = { x: across, y: value, rows, mark, alpha: many ? 0.6 : 0.9 };
      paintPoints(context, scales, {
        ...place,
        size: many ? size - 2 : size,
        colour: colourOf(look, colours),
      });
      if (look === "running")
        paintPoints(context, scales, { ...place, size: size - 4, colour: colours.card });
    });
  };
}

const finder = (shared: Shared, rungs: Rungs | undefined, across: Float64Array, colours: Colours) => {
  const all = Uint32Array.from(across, (_, point) => point);
  return (at: { x: number; y: number }, scales: Scales): Hit | null => {
    if (rungs === undefined) return null;
    const point = nearest(scales, across, rungs.value, all, at);
    const row = shared.columns.rowOf(rungs.sequence[point] ?? -1);
    if (point < 0 || row < 0) return null;
    const place = (one: number) =>
      [scales.x.at(across[one] ?? NaN), scales.y.at(rungs.value[one] ?? NaN)] as const;
    const rung = rungs.rungs[rungs.rung[point] ?? 0];
    return {
      x: place(point)[0],
      y: place(point)[1],
      tip: tipOf(
        shared,
        row,
        [],
        [
          [words.axis[rungs.by], rung === undefined ? "" : nameOf(rung)],
          [words.value, formatNumber(rungs.value[point])],
          [words.fate, `${words.fates[rungs.by][lookOf(rungs, point)]}. ${whyOf(rungs, point)}`.trim()],
        ],
      ),
      onPick: () => shared.open(row),
      draw: (context) => {
        context.beginPath();
        for (const one of chainOf(rungs, point)) context.lineTo(...place(one));
        context.stroke();
        const [x, y] = place(point);
        context.strokeRect(x - 6, y - 6, 12, 12);
        context.save();
        context.strokeStyle = colours.bad;
        context.setLineDash([4, 3]);
        for (const other of beatenBy(rungs, point)) {
          const [left, top] = place(other);
          context.beginPath();
          context.moveTo(x, y);
          context.lineTo(left, top);
          context.rect(left - 6, top - 6, 12, 12);
          context.stroke();
        }
        context.restore();
      },
    };
  };
};

/** Who or what decided about a trial at a rung, in a sentence. */
function whyOf(rungs: Rungs, point: number): string {
  const after = rungs.sequence[rungs.next[point] ?? -1];
  const cut = rungs.rungs[rungs.rung[point] ?? 0]?.cut ?? null;
  switch (lookOf(rungs, point)) {
    case "stopped": {
      const verdict = rungs.verdicts.get(rungs.sequence[point] ?? -1);
      return [verdict?.reason ?? "", words.beaten(verdict?.better ?? [])].filter(Boolean).join(" ");
    }
    case "promoted":
      return rungs.by === "budget" && after !== undefined ? words.promotedAs(after) : "";
    case "left":
      if (rungs.by === "step") return "";
      if (cut === null) return words.nobodyWentOn;
      return isWorse(rungs, point, cut.value)
        ? words.worstPromoted(cut.sequence, formatNumber(cut.value))
        : "";
    default:
      return "";
  }
}

function cellsOf(rungs: Rungs, point: number): Cell[] {
  const rung = rungs.rungs[rungs.rung[point] ?? 0];
  const value = rungs.value[point] ?? NaN;
  return [
    rung === undefined ? null : nameOf(rung),
    rungs.sequence[point] ?? null,
    Number.isNaN(value) ? null : value,
    words.fates[rungs.by][lookOf(rungs, point)],
    whyOf(rungs, point),
    (rungs.verdicts.get(rungs.sequence[point] ?? -1)?.better ?? []).join(" "),
  ];
}

function Legend({ rungs, colours }: { rungs: Rungs; colours: Colours }) {
  const shown = LOOKS.filter(({ look }) => look !== "completed" || rungs.by === "budget");
  return (
    <span className="row hint">
      {shown.map(({ look, sign }) => (
        <span key={look} className="row legend">
          <span className="legend-colour" style={{ background: colourOf(look, colours) }} aria-hidden />
          {sign} {words.fates[rungs.by][look]}
        </span>
      ))}
    </span>
  );
}
