import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { request } from "@/api/client";
import { categoryText, unpack, type PackedColumn } from "@/data/packed";
import { strings } from "@/strings";
import { useColours, type Colours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { tip } from "@/ui/chart/tip";
import { Button } from "@/ui/Button";
import { Failure } from "@/ui/Failure";
import { formatDuration, formatNumber } from "@/ui/format";
import type { Paint, Scales } from "@/ui/plot/paint";
import type { Area, Hit } from "@/ui/plot/Plot";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import type { Axis } from "@/ui/plot/scale";
import { useUrlState } from "@/ui/useUrlState";
import { textOf } from "./selection";
import type { Shared } from "./shared";
import { addParameters } from "./tipParameters";

interface Header {
  lanes: readonly { keeperId: string; gpu: number | null; part: number }[];
  from: number;
  to: number;
  begin: number;
  end: number;
}

interface Bars {
  header: Header;
  count: number;
  lane: ArrayLike<number>;
  start: ArrayLike<number>;
  end: ArrayLike<number>;
  sequence: ArrayLike<number>;
  attempt: ArrayLike<number>;
  merged: ArrayLike<number>;
  busy: ArrayLike<number>;
  status: PackedColumn | undefined;
}

const PIXELS = 1200;

async function readBars(
  id: string,
  filter: string,
  [from, to]: readonly string[],
  signal: AbortSignal,
): Promise<Bars> {
  const search = new URLSearchParams({ filter, pixels: String(PIXELS) });
  if (from !== undefined && to !== undefined) {
    search.set("from", from);
    search.set("to", to);
  }
  const path = `/api/v1/experiments/${encodeURIComponent(id)}/analysis/timeline?${search}`;
  const { header, columns } = unpack<Header>(await (await request(path, { signal })).arrayBuffer());
  const column = (name: string): ArrayLike<number> => columns.get(name)?.values ?? [];
  return {
    header,
    count: column("lane").length,
    lane: column("lane"),
    start: column("start"),
    end: column("end"),
    sequence: column("sequence"),
    attempt: column("attempt"),
    merged: column("count"),
    busy: column("busy"),
    status: columns.get("status"),
  };
}

/** Which trial ran where and when; brushing shows a part of the time nearer. */
export default function Timeline({ shared }: { shared: Shared }) {
  const words = strings.analysis.timeline;
  const colours = useColours();
  const [span, setSpan] = useUrlState("span", "");
  const filter = [shared.filter, textOf(shared.brushes)].filter(Boolean).join(";");
  const answer = useQuery({
    queryKey: ["live", shared.id, "timeline", filter, span],
    queryFn: ({ signal }) => readBars(shared.id, filter, span === "" ? [] : span.split(","), signal),
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });
  const bars = answer.data;
  const axes = useMemo(() => axesOf(bars), [bars]);
  const paint = useMemo(() => painter(bars, colours), [bars, colours]);
  const find = useMemo(() => finder(shared, bars), [shared, bars]);
  if (bars === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  if (bars.header.lanes.length === 0) return <NoChart title={words.title} sentence={words.none} />;
  const laneTexts = axes.y.categories ?? [];
  return (
    <>
      <PlotFigure
        title={words.title}
        summary={words.summary(laneTexts.length, formatDuration(bars.header.to - bars.header.from))}
        x={axes.x}
        y={axes.y}
        paint={paint}
        find={find}
        onBrush={({ x }: Area) => setSpan(x.map((at) => at.toFixed(1)).join(","))}
        tools={
          span === "" ? null : (
            <Button small onClick={() => setSpan("")}>
              {words.all}
            </Button>
          )
        }
        table={() => ({
          columns: ["lane", "start s", "end s", "sequence", "attempt", "status", "trials"],
          rows: Array.from({ length: bars.count }, (_, bar) => [
            laneTexts[bars.lane[bar] ?? 0] ?? "",
            bars.start[bar] ?? null,
            bars.end[bar] ?? null,
            bars.sequence[bar] ?? null,
            bars.attempt[bar] ?? null,
            statusOfBar(bars, bar),
            bars.merged[bar] ?? null,
          ]),
        })}
      />
      <div className="spread">
        <Legend colours={colours} />
        <p className="soft hint">{words.hint}</p>
      </div>
    </>
  );
}

function axesOf(bars: Bars | undefined): { x: Axis; y: Axis } {
  const lanes = bars?.header.lanes ?? [];
  const texts = lanes.map(({ keeperId, gpu, part }) =>
    [
      strings.trial.attempts.places[keeperId] ?? keeperId,
      gpu === null ? "" : strings.analysis.timeline.gpu(gpu),
      part > 0 ? `(${part + 1})` : "",
    ]
      .filter(Boolean)
      .join(" "),
  );
  return {
    x: {
      label: strings.analysis.sinceStart,
      kind: "time",
      min: bars?.header.from ?? 0,
      max: bars?.header.to ?? 1,
    },
    y: { label: "", kind: "category", min: -0.5, max: Math.max(texts.length, 1) - 0.5, categories: texts },
  };
}

const statusOfBar = ({ status }: Bars, bar: number): string => {
  const category = status?.categories?.[status.values[bar] ?? -1];
  return category === undefined ? "" : categoryText(category);
};

/** Never by colour alone: a mark stands on each bar that is wide enough. */
const LOOKS: readonly (readonly [string, keyof Colours | number, string])[] = [
  ["SUCCEEDED", 0, ""],
  ["RUNNING", 2, "▶"],
  ["EARLY_STOPPED", 4, "◐"],
  ["FAILED", "bad", "✕"],
  ["LOST", 5, "?"],
  ["RETRIED", 3, "↻"],
  ["USER_CANCELED", "quiet", "■"],
];

function lookOf(status: string, colours: Colours): [string, string] {
  const [, colour, mark] = LOOKS.find(([name]) => name === status) ?? ["", "quiet", "·"];
  const found = typeof colour === "number" ? colours.series[colour] : colours[colour];
  return [typeof found === "string" ? found : colours.quiet, mark];
}

const painter =
  (bars: Bars | undefined, colours: Colours): Paint =>
  (context, { x, y }) => {
    if (bars === undefined) return;
    const height = Math.max(3, Math.min(26, Math.abs(y.at(1) - y.at(0)) * 0.8));
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let bar = 0; bar < bars.count; bar += 1) {
      const [left, right] = [x.at(bars.start[bar] ?? 0), x.at(bars.end[bar] ?? 0)];
      const middle = y.at(bars.lane[bar] ?? 0);
      const [colour, mark] = lookOf(statusOfBar(bars, bar), colours);
      context.fillStyle = colour;
      context.globalAlpha = 0.35 + 0.6 * Math.min(1, bars.busy[bar] ?? 1);
      context.fillRect(
        left,
        middle - height / 2,
        Math.max(1, right - left - (right - left > 4 ? 1 : 0)),
        height,
      );
      context.globalAlpha = 1;
      if (right - left < 46 || height < 12 || (bars.merged[bar] ?? 1) > 1) continue;
      context.fillStyle = colours.card;
      context.fillText(`${mark} ${bars.sequence[bar] ?? 0}`, Math.max(left, 0) + 4, middle);
    }
  };

const finder =
  (shared: Shared, bars: Bars | undefined) =>
  (at: { x: number; y: number }, { x, y, room }: Scales): Hit | null => {
    if (bars === undefined || at.x < room.left) return null;
    const [time, lane] = [x.of(at.x), Math.round(y.of(at.y))];
    for (let bar = 0; bar < bars.count; bar += 1) {
      const [start, end] = [bars.start[bar] ?? 0, bars.end[bar] ?? 0];
      if (bars.lane[bar] !== lane || time < start || time > end) continue;
      return {
        x: at.x,
        y: y.at(lane),
        tip: tipOfBar(shared.id, bars, bar),
        onPick: () => {
          const row = shared.columns.rowOf(bars.sequence[bar] ?? -1);
          if (row >= 0) shared.open(row);
        },
      };
    }
    return null;
  };

function tipOfBar(id: string, bars: Bars, bar: number): HTMLElement {
  const words = strings.analysis.timeline;
  const [start, end, merged] = [bars.start[bar] ?? 0, bars.end[bar] ?? 0, bars.merged[bar] ?? 1];
  const when: [string, string][] = [
    [words.from, formatDuration(start)],
    [strings.analysis.durationName, formatDuration(end - start)],
    [strings.analysis.status, statusOfBar(bars, bar)],
  ];
  if (merged > 1)
    return tip(words.several(merged), [
      ...when,
      [words.busy, `${formatNumber(Math.round((bars.busy[bar] ?? 0) * 100))} %`],
    ]);
  const sequence = bars.sequence[bar] ?? 0;
  const box = tip(strings.analysis.trial(sequence), [
    ...when,
    [words.attempt, String(bars.attempt[bar] ?? 1)],
  ]);
  addParameters(box, id, sequence, new Set());
  return box;
}

function Legend({ colours }: { colours: Colours }) {
  return (
    <span className="row hint">
      {LOOKS.map(([status]) => {
        const [colour, mark] = lookOf(status, colours);
        return (
          <span key={status} className="row legend">
            <span className="legend-colour" style={{ background: colour }} aria-hidden />
            {mark} {status}
          </span>
        );
      })}
    </span>
  );
}
