import "./sparkline.css";

interface SparklineProps {
  /** Steps: each value holds until the next x. */
  points: readonly { x: number; y: number }[];
  /** Where the line ends, if that is after the last point. */
  until?: number | null;
  label: string;
}

const [WIDTH, HEIGHT, EDGE] = [60, 22, 2];

/** A line without axes. */
export function Sparkline({ points, until, label }: SparklineProps) {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return null;
  const end = Math.max(last.x, until ?? last.x);
  const ys = points.map(({ y }) => y);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const x = (value: number) =>
    end === first.x ? EDGE : EDGE + ((value - first.x) / (end - first.x)) * (WIDTH - 2 * EDGE);
  const y = (value: number) =>
    high === low ? HEIGHT / 2 : HEIGHT - EDGE - ((value - low) / (high - low)) * (HEIGHT - 2 * EDGE);
  const path = points
    .map((point, at) =>
      at === 0
        ? `M${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`
        : `H${x(point.x).toFixed(1)}V${y(point.y).toFixed(1)}`,
    )
    .join("");
  return (
    <svg className="sparkline" width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <title>{label}</title>
      <path d={`${path}H${WIDTH - EDGE}`} />
      <circle cx={WIDTH - EDGE} cy={y(last.y)} r="2" />
    </svg>
  );
}
