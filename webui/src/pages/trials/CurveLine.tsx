const [WIDTH, HEIGHT, EDGE] = [320, 120, 4];

interface CurveLineProps {
  points: readonly { x: number; y: number }[];
  label: string;
  /** What the pointer shows. */
  hover: string;
}

/** A line without axes, of the points' shape; of many points, those that can be told apart. */
export function CurveLine({ points, label, hover }: CurveLineProps) {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return null;
  const step = Math.max(1, Math.floor(points.length / WIDTH));
  const shown = points.filter((_, at) => at % step === 0 || at === points.length - 1);
  const low = shown.reduce((least, { y }) => Math.min(least, y), Infinity);
  const high = shown.reduce((most, { y }) => Math.max(most, y), -Infinity);
  const x = (value: number) => EDGE + ((value - first.x) / (last.x - first.x || 1)) * (WIDTH - 2 * EDGE);
  const y = (value: number) => HEIGHT - EDGE - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
  const path = shown.map((point) => `${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("L");
  return (
    <svg className="curve-line" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <title>{hover}</title>
      <path d={`M${path}`} />
      <circle cx={x(last.x)} cy={y(last.y)} r="3" />
    </svg>
  );
}
