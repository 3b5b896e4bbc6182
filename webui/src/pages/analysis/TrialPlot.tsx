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
  /** Coloured by how good the metric is. */
  byMetric?: boolean;
  /** Drawn above the points. */
  over?: Paint | undefined;
  under?: Paint | undefined;
  tools?: ReactNode;
  height?: 200 | 320 | 460;
  compact?: boolean;
}

/** The trials by two of their columns: brushing selects by both. */
export function TrialPlot({
  shared,
  title,
  summary,
  x,
  y,
  log,
  byMetric = false,
  over,
  under,
  ...frame
}: TrialPlotProps) {
  const colours = useColours();
  const [logX, logY] = [log?.x ?? false, log?.y ?? false];
  const axes = useMemo(
    () => ({ x: columnAxis(shared, x, logX), y: columnAxis(shared, y, logY) }),
    [shared, x, y, logX, logY],
  );
  const [xs, ys] = useMemo(() => [placesBy(shared, x), placesBy(shared, y)], [shared, x, y]);
  const paint = useMemo((): Paint => {
    const points = paintTrials(shared, xs, ys, colours, byMetric);
    return (context, scales) => {
      under?.(context, scales);
      points(context, scales);
      over?.(context, scales);
    };
  }, [shared, xs, ys, colours, byMetric, over, under]);
  const find = useMemo(() => finder(shared, xs, ys, [x, y]), [shared, xs, ys, x, y]);
  return (
    <PlotFigure
      title={title}
      summary={summary}
      x={axes.x}
      y={axes.y}
      paint={paint}
      find={find}
      onBrush={(area) => shared.brush({ [x]: brushOf(shared, x, area.x), [y]: brushOf(shared, y, area.y) })}
      table={() => trialTable(shared, [x, y, shared.metric.name])}
      {...frame}
    />
  );
}
