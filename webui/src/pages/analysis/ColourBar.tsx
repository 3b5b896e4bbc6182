import { useEffect, useRef } from "react";
import { LEVELS, levelColours, useColours } from "@/ui/chart/colours";

/** The colours of a scale, between what its ends stand for. */
export function ColourBar({ low, high }: { low: string; high: string }) {
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
      {low}
      <canvas ref={canvas} width={LEVELS} height={1} aria-hidden />
      {high}
    </span>
  );
}
