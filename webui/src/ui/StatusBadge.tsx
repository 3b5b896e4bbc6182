type Look = "good" | "warn" | "bad" | "info" | "";

/** The look and the mark of each status: never told by colour alone. */
const LOOKS: Record<string, readonly [Look, string]> = {
  SUCCEEDED: ["good", "✓"],
  DONE: ["good", "✓"],
  RUNNING: ["info", "▶"],
  INITIALIZED: ["info", "▷"],
  WAITING: ["", "…"],
  PAUSED: ["", "‖"],
  FAILED: ["bad", "✕"],
  ERROR: ["bad", "✕"],
  UNKNOWN: ["warn", "?"],
  EARLY_STOPPED: ["warn", "◐"],
  USER_CANCELED: ["", "■"],
  SYS_CANCELED: ["", "■"],
  STOPPED: ["", "■"],
  STOPPING: ["warn", "■"],
  NO_MORE_TRIAL: ["info", "▷"],
  TUNER_NO_MORE_TRIAL: ["info", "▷"],
  DRAINING: ["info", "▷"],
  VIEWED: ["", "◎"],
};

export function StatusBadge({ status, detail }: { status: string; detail?: string | null | undefined }) {
  const [look, mark] = LOOKS[status] ?? ["", "·"];
  return (
    <span className={`badge ${look}`}>
      <span aria-hidden>{mark}</span>
      <span className="badge-text">{status}</span>
      {detail === null || detail === undefined ? null : <span>({detail})</span>}
    </span>
  );
}
