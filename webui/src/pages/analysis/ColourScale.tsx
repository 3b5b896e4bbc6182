import { useEffect, useRef } from "react";
import { strings } from "@/strings";
import { LEVELS, levelColours, useColours } from "@/ui/chart/colours";
import { formatNumber } from "@/ui/format";
import type { Metric } from "./shared";

/** Which colour means which value of the metric. */
export function ColourScale({ metric }: { metric: Metric }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { dark } = useColours();
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    levelColours(dark).forEach((colour, level) => {
      if (context === null || context === undefined) return;
      context.fillStyle = colour;
      context.fillRect(level, 0, 1, 1);
    });
  }, [dark]);
  return (
    <span className="colour-scale number">
      {metric.label}: {strings.analysis.worse} {metric.minimise ? "≥" : "≤"} {formatNumber(metric.worst)}
      <canvas ref={canvas} width={LEVELS} height={1} aria-hidden />
      {formatNumber(metric.best)} {strings.analysis.better}
    </span>
  );
}
