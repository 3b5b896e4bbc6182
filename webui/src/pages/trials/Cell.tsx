import { memo } from "react";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { formatDuration, formatInstant, formatNumber } from "@/ui/format";
import { StatusBadge } from "@/ui/StatusBadge";
import { TagChips } from "@/ui/TagChips";
import { useSecond } from "@/ui/useSecond";
import { metricOf, parameterOf } from "./columns";
import { hoverText } from "./hover";

/** What a trial has in a column. */
export const Cell = memo(function Cell({ trial, column }: { trial: Trial; column: string }) {
  switch (column) {
    case "sequence":
      return trial.sequence;
    case "id":
      return <code>{trial.id}</code>;
    case "duration":
      return <Duration trial={trial} />;
    case "status":
      return (
        <span title={trial.reason ?? undefined}>
          <StatusBadge status={trial.status} detail={trial.detail} />
        </span>
      );
    case "value":
      return <DefaultMetric trial={trial} />;
    case "latest":
      return trial.latestText === null ? <Nothing /> : metric(trial, trial.latestValue, trial.latestText);
    case "intermediates":
      return trial.intermediates.toLocaleString("en");
    case "created":
      return <Instant at={trial.createdAt} />;
    case "started":
      return <Instant at={trial.startedAt} />;
    case "ended":
      return <Instant at={trial.endedAt} />;
    case "message":
      return <Text text={trial.note ?? trial.reason} />;
    case "attempt":
      return trial.attempt;
    case "source":
      return <Text text={trial.source.toLowerCase()} />;
    case "retryOf":
      return trial.retryOf === null ? <Nothing /> : <code>{trial.retryOf}</code>;
    case "logPath":
      return <Text text={trial.logPath} />;
    case "userNote":
      return <Text text={trial.userNote} />;
    case "tags":
      return trial.tags.length === 0 ? <Nothing /> : <TagChips tags={trial.tags} />;
    default:
      return (
        <Value
          value={column.startsWith("parameters.") ? parameterOf(trial, column) : metricOf(trial, column)}
        />
      );
  }
});

function Nothing() {
  return <span className="soft">{strings.common.notAvailable}</span>;
}

function Text({ text }: { text: string | null }) {
  return text === null || text === "" ? <Nothing /> : <span title={text}>{text}</span>;
}

function Instant({ at }: { at: string | null }) {
  return at === null ? <Nothing /> : <time title={at}>{formatInstant(at)}</time>;
}

function Duration({ trial }: { trial: Trial }) {
  if (trial.startedAt === null || trial.status === "PAUSED") return <Nothing />; // nothing of it runs
  if (trial.endedAt === null) return <Elapsed since={trial.startedAt} />;
  return formatDuration((Date.parse(trial.endedAt) - Date.parse(trial.startedAt)) / 1000);
}

/** The final metric, or, marked as such, the latest one. */
function DefaultMetric({ trial }: { trial: Trial }) {
  if (trial.finalText !== null) return metric(trial, trial.finalValue, trial.finalText);
  if (trial.latestText === null) return <Nothing />;
  return (
    <>
      {metric(trial, trial.latestValue, trial.latestText)}{" "}
      <span className="soft">{strings.trials.latestMark}</span>
    </>
  );
}

/** A number with all that the trial has reported in its hover text, above the trial's own. */
function metric(trial: Trial, value: number | null, written: string) {
  return (
    <span title={`${written}\n\n${hoverText(trial)}`}>{value === null ? written : formatNumber(value)}</span>
  );
}

export function Value({ value }: { value: unknown }) {
  if (value === undefined) return <Nothing />;
  if (typeof value === "number") return <span title={String(value)}>{formatNumber(value)}</span>;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return <span title={text}>{text}</span>;
}

/** How long it has been, counting on. */
function Elapsed({ since }: { since: string }) {
  const now = useSecond();
  return formatDuration(Math.max(0, Math.round((now - Date.parse(since)) / 1000)));
}
