import type { ReactNode } from "react";
import { formatNumber } from "@/ui/format";
import { ticks } from "./ticks";

export const [WIDTH, HEIGHT] = [520, 210];
const EDGE = { left: 62, right: 12, top: 10, bottom: 34 };

export interface Places {
  x: (sequence: number) => number;
  y: (value: number) => number;
}

/** Where a trial's number (0 to `end`) and its result are in the picture; the results get some room. */
export function placesOf(end: number, values: readonly number[]): Places & { low: number; high: number } {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = most === least ? Math.abs(most) / 20 || 1 : (most - least) * 0.06;
  const [low, high] = [least - room, most + room];
  return {
    low,
    high,
    x: (sequence) => EDGE.left + (sequence / end) * (WIDTH - EDGE.left - EDGE.right),
    y: (value) => EDGE.top + ((high - value) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom),
  };
}

/** A small picture of results by trial number, and the sentence that says what it shows. */
export function ResultPicture(props: {
  places: ReturnType<typeof placesOf>;
  end: number;
  axis: string;
  summary: string;
  children: ReactNode;
}) {
  const { places, end, axis, summary, children } = props;
  return (
    <figure className="history">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
        {ticks(places.low, places.high, 4).map((value) => (
          <g key={value}>
            <line
              className="grid"
              x1={EDGE.left}
              x2={WIDTH - EDGE.right}
              y1={places.y(value)}
              y2={places.y(value)}
            />
            <text x={EDGE.left - 6} y={places.y(value) + 4} textAnchor="end">
              {formatNumber(value)}
            </text>
          </g>
        ))}
        {ticks(0, end, 6)
          .filter((value) => Number.isInteger(value))
          .map((value) => (
            <text key={value} x={places.x(value)} y={HEIGHT - EDGE.bottom + 16} textAnchor="middle">
              {formatNumber(value)}
            </text>
          ))}
        <text className="axis" x={WIDTH - EDGE.right} y={HEIGHT - 3} textAnchor="end">
          {axis}
        </text>
        {children}
      </svg>
      <figcaption className="soft">{summary}</figcaption>
    </figure>
  );
}
