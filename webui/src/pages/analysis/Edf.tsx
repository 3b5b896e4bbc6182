import { useMemo } from "react";
import { strings } from "@/strings";
import { useColours } from "@/ui/chart/colours";
import { NoChart } from "@/ui/chart/Figure";
import { formatNumber } from "@/ui/format";
import type { Paint } from "@/ui/plot/paint";
import { PlotFigure } from "@/ui/plot/PlotFigure";
import { axisOf } from "@/ui/plot/scale";
import { shareOfResults } from "./edfData";
import type { Shared } from "./shared";

const words = strings.analysis.edf;

/** For each value, the share of the trials with a result that is as good or better. Dragging selects values. */
export default function Edf({ shared }: { shared: Shared }) {
  const { metric, selected, columns } = shared;
  const colours = useColours();
  const { values, rows } = useMemo(() => shareOfResults(metric, selected), [metric, selected]);
  const axes = useMemo(
    () => ({ x: axisOf(metric.label, values), y: axisOf(words.share, [0, 1]) }),
    [metric, values],
  );
  const paint = useMemo(
    (): Paint => (context, scales) => {
      context.strokeStyle = colours.series[0] ?? "";
      context.lineWidth = 2;
      context.beginPath();
      values.forEach((value, at) => {
        const [x, y] = [scales.x.at(value), scales.y.at((at + 1) / values.length)];
        if (at === 0) context.moveTo(x, scales.y.at(0));
        else context.lineTo(x, scales.y.at(at / values.length));
        context.lineTo(x, y);
      });
      context.stroke();
    },
    [values, colours],
  );
  if (values.length === 0) return <NoChart title={words.title} sentence={words.none} />;
  const [median, best] = [values[Math.floor((values.length - 1) / 2)], values[0]];
  return (
    <PlotFigure
      title={words.title}
      summary={words.summary(values.length, formatNumber(median), formatNumber(best))}
      x={axes.x}
      y={axes.y}
      paint={paint}
      onBrush={({ x: [low, high] }) => shared.brush({ [metric.name]: { range: [low, high] } })}
      table={() => ({
        columns: ["sequence", metric.name, "share"],
        rows: Array.from(values, (value, at) => [
          columns.sequence[rows[at] ?? -1] ?? null,
          value,
          (at + 1) / values.length,
        ]),
      })}
    />
  );
}
