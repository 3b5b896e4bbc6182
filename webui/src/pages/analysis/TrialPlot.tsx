import { useMemo, type ReactNode } from "react";
import { useColours } from "@/ui/chart/colours";
import type { Paint } from "@/ui/plot/paint";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import { brushOf, columnAxis, type Shared } from "./shared";
import { finder, paintTrials, placesBy, trialTable } from "./trialMarks";

interface TrialPlotProps {
  shared: Shared;
  title: string;
  summary: string;
  /** Names of columns. */
  x: string;
  y: string;
  log?: { x?: boolean; y?: boolean };
  /** Of the axes, in place of the columns' names. */
  labels?: { x: string; y: string };
  /** Columns that a trial's description has beside these two. */
  told?: readonly string[];
  /** So that what is drawn over the points stands out. */
  faint?: boolean;
  /** Coloured by how good the metric is. */
  byMetric?: boolean;
  /** Drawn above the points. */
  over?: Paint | undefined;
  under?: Paint | undefined;
  tools?: ReactNode;
  height?: 200 | 320 | 460;
  compact?: boolean;
}

const NO_NAMES: readonly string[] = [];

/** The trials by two of their columns: brushing selects by both. */
export function TrialPlot({
  shared,
  title,
  summary,
  x,
  y,
  log,
  labels,
  told = NO_NAMES,
  faint = false,
  byMetric = false,
  over,
  under,
  ...frame
}: TrialPlotProps) {
  const colours = useColours();
  const [logX, logY] = [log?.x ?? false, log?.y ?? false];
  const [labelX, labelY] = [labels?.x ?? shared.label(x), labels?.y ?? shared.label(y)];
  const axes = useMemo(
    () => ({
      x: { ...columnAxis(shared, x, logX), label: labelX },
      y: { ...columnAxis(shared, y, logY), label: labelY },
    }),
    [shared, x, y, logX, logY, labelX, labelY],
  );
  const [xs, ys] = useMemo(() => [placesBy(shared, x), placesBy(shared, y, "y")], [shared, x, y]);
  const paint = useMemo((): Paint => {
    const points = paintTrials(shared, xs, ys, colours, { byMetric, faint });
    return (context, scales) => {
      under?.(context, scales);
      points(context, scales);
      over?.(context, scales);
    };
  }, [shared, xs, ys, colours, byMetric, faint, over, under]);
  const find = useMemo(() => finder(shared, xs, ys, [x, y, ...told]), [shared, xs, ys, x, y, told]);
  return (
    <PlotFigure
      title={title}
      summary={summary}
      x={axes.x}
      y={axes.y}
      paint={paint}
      find={find}
      onBrush={(area) => shared.brush({ [x]: brushOf(shared, x, area.x), [y]: brushOf(shared, y, area.y) })}
      table={() => trialTable(shared, [x, y, ...told, shared.metric.name])}
      {...frame}
    />
  );
}
