export interface ProgressPart {
  look: "accent" | "good" | "warn" | "bad" | "info" | "quiet";
  /** Of the whole, 0 to 1. */
  share: number;
  title: string;
}

/** A bar of parts; with none there is no whole to measure against. */
export function Progress({ label, parts }: { label: string; parts: readonly ProgressPart[] }) {
  const share = Math.min(
    1,
    parts.reduce((sum, part) => sum + part.share, 0),
  );
  return (
    <div
      className="parts"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(100 * share)}
    >
      {parts.map((part) => (
        <div
          key={part.title}
          className={part.look}
          title={part.title}
          style={{ width: `${Math.min(100, 100 * part.share)}%` }}
        />
      ))}
    </div>
  );
}
