import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { profileQuery } from "@/data/experiment";
import { lineageQuery } from "@/data/lineage";
import { strings } from "@/strings";
import { useColours } from "@/ui/chart/colours";
import { NoChart, type ChartTable } from "@/ui/chart/Figure";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import type { Area } from "@/ui/plot/Plot";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import type { Axis } from "@/ui/plot/scale";
import { shownValue } from "@/ui/trial/flat";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { ColourBar } from "./ColourBar";
import { parametersOf, pictureOf, scaleOf, type Picture } from "./lineageData";
import { colourer, finder, MOST_ARROWS, originText, painter, type Look } from "./lineagePaint";
import type { Shared } from "./shared";

const words = strings.analysis.lineage;
const FEW_LANES = 12;
const MOST_COLOURS = 8; // in the legend: there are no more
const NOTHING: Picture = { lanes: [], stretches: [], arrows: [] };

/** Which trial has continued from whose checkpoint: a lane for each trial, with its legs over time. */
export default function LineageChart({ shared }: { shared: Shared }) {
  const colours = useColours();
  const [chosen, setChosen] = useUrlState("colour", "", { replace: true });
  const answer = useQuery(lineageQuery(shared.id));
  const { data: profile } = useQuery(profileQuery(shared.id));
  const { data: lineage, dataUpdatedAt } = answer;
  const begin = profile?.createdAt ?? null;
  const picture = useMemo(() => {
    if (lineage === undefined || begin === null) return NOTHING;
    const selected = new Set(shared.selected);
    const shows = (sequence: number) => selected.has(shared.columns.rowOf(sequence));
    return pictureOf(lineage, shows, Date.parse(begin), dataUpdatedAt);
  }, [lineage, begin, dataUpdatedAt, shared.selected, shared.columns]);
  const names = useMemo(() => parametersOf(picture.stretches), [picture]);
  const name = names.includes(chosen) ? chosen : (names[0] ?? "");
  const look = useMemo(
    (): Look => ({ name, scale: scaleOf(picture.stretches, name), colours }),
    [picture, name, colours],
  );
  const axes = useMemo(() => axesOf(picture), [picture]);
  const paint = useMemo(() => painter(picture, look), [picture, look]);
  const find = useMemo(
    () => finder(picture, look, (sequence) => shared.open(shared.columns.rowOf(sequence))),
    [picture, look, shared],
  );
  if (lineage === undefined || begin === null)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  if (picture.lanes.length === 0)
    return (
      <NoChart title={words.title} sentence={lineage.trials.length === 0 ? words.none : words.noneSelected} />
    );
  const brush = ({ y: [low, high] }: Area) => {
    const inside = picture.lanes.slice(Math.max(0, Math.round(low)), Math.round(high) + 1);
    const [first, last] = [inside.at(-1), inside[0]];
    if (first !== undefined && last !== undefined)
      shared.brush({ sequence: { range: [first.sequence, last.sequence] } });
  };
  return (
    <>
      <PlotFigure
        title={words.title}
        summary={summaryOf(picture)}
        height={picture.lanes.length > FEW_LANES ? 460 : 320}
        x={axes.x}
        y={axes.y}
        paint={paint}
        find={find}
        onBrush={brush}
        table={() => tableOf(picture)}
        tools={
          names.length === 0 ? null : (
            <Choice
              label={words.colour}
              value={name}
              onChange={setChosen}
              options={names.map((each) => [each, each] as const)}
            />
          )
        }
      />
      <div className="spread">
        <Legend look={look} many={picture.arrows.length > MOST_ARROWS} />
        <p className="soft hint">{strings.chart.hint}</p>
      </div>
    </>
  );
}

function axesOf({ lanes, stretches }: Picture): { x: Axis; y: Axis } {
  const from = stretches.reduce((least, each) => Math.min(least, each.from), Infinity);
  const to = stretches.reduce((most, each) => Math.max(most, each.to), from);
  const room = (to - from) * 0.01;
  return {
    x: {
      label: strings.analysis.sinceStart,
      kind: "time",
      min: stretches.length === 0 ? 0 : from - room,
      max: stretches.length === 0 ? 1 : to + room,
    },
    y: {
      label: "",
      kind: "category",
      min: -0.5,
      max: lanes.length, // with room for the buttons above the first lane
      categories: lanes.map(({ sequence }) => strings.analysis.trial(sequence)),
    },
  };
}

function summaryOf({ lanes, stretches }: Picture): string {
  const count = (fits: (fork: boolean, own: boolean) => boolean) =>
    stretches.filter(
      ({ origin, trial }) => origin !== null && fits(origin.fork, origin.sequence === trial.sequence),
    ).length;
  return words.summary(
    lanes.length,
    count((fork, own) => !fork && !own),
    count((fork, own) => !fork && own),
    count((fork) => fork),
  );
}

function tableOf({ stretches }: Picture): ChartTable {
  const names = [...new Set(stretches.flatMap(({ parameters }) => [...parameters.keys()]))];
  return {
    columns: ["sequence", "leg", "start s", "end s", "first result", "continues from", "why", ...names],
    rows: [...stretches]
      .sort((a, b) => a.trial.sequence - b.trial.sequence || a.leg - b.leg)
      .map(({ trial, leg, from, to, reports, origin, reason, parameters }) => [
        ...[trial.sequence, leg, from, to, reports, originText(origin), reason],
        ...names.map((name) => cellOf(parameters.get(name))),
      ]),
  };
}

const cellOf = (value: unknown) =>
  value === undefined ? null : typeof value === "number" ? value : shownValue(value);

function Legend({ look, many }: { look: Look; many: boolean }) {
  const { scale, name } = look;
  const colourOf = colourer(look);
  return (
    <span className="row hint">
      {scale.kind === "range" ? (
        <ColourBar low={`${name}: ${formatNumber(scale.low)}`} high={formatNumber(scale.high)} />
      ) : (
        scale.values.slice(0, MOST_COLOURS).map((value, index) => (
          <span key={index} className="row legend">
            <span className="legend-colour" style={{ background: colourOf(value) }} aria-hidden />
            {shownValue(value)}
          </span>
        ))
      )}
      <span className="soft">{many ? words.manyArrows : words.arrows}</span>
    </span>
  );
}
