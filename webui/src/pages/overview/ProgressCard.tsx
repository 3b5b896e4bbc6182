import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { profileQuery, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { formatDuration, formatInstant, formatNumber } from "@/ui/format";
import { StatusBadge } from "@/ui/StatusBadge";
import { useSecond } from "@/ui/useSecond";
import { EditLimit } from "./EditLimit";
import { inUnits, readCount, readDuration, readPriority } from "./limits";
import { Progress, type ProgressPart } from "./Progress";
import { whyFixed } from "./whyFixed";

const text = strings.overview.progress;
const MOVING = new Set(["INITIALIZED", "RUNNING", "DRAINING"]);

/** In the order of the bar: trials that ended well, that ended otherwise, and that have not ended. */
const LOOKS = [
  ["SUCCEEDED", "good", true],
  ["EARLY_STOPPED", "warn", true],
  ["FAILED", "bad", true],
  ["USER_CANCELED", "quiet", true],
  ["SYS_CANCELED", "quiet", true],
  ["RUNNING", "info", false],
  ["UNKNOWN", "warn", false],
  ["PAUSED", "quiet", false],
  ["WAITING", "quiet", false],
] as const satisfies readonly (readonly [keyof Profile["counts"] & string, ProgressPart["look"], boolean])[];

/** After the number of finished trials. A user can set the limit below the number of `created` trials. */
function finishedText(finished: number, created: number, limit: number | null): string {
  if (limit === null) return text.finished;
  const whole = finished <= limit ? text.finishedOf(formatNumber(Math.max(limit, created))) : text.finished;
  return created <= limit ? whole : `${whole}${text.above(formatNumber(limit))}`;
}

/** How far the experiment is: trials and time against their limits, the pace, and the expected end. */
export function ProgressCard({ id, profile }: { id: string; profile: Profile }) {
  const { maxTrialNumber, maxExperimentDurationS } = profile.limits;
  const counts = LOOKS.map(([status, look, ended]) => ({
    status,
    look,
    ended,
    count: profile.counts[status] ?? 0,
  }));
  const there = counts.filter(({ count }) => count > 0);
  const created = there.reduce((sum, { count }) => sum + count, 0);
  const ended = there.reduce((sum, each) => sum + (each.ended ? each.count : 0), 0);
  const canceled = profile.counts.SYS_CANCELED ?? 0;
  const leftOut = maxTrialNumber === null ? 0 : profile.retried + canceled;
  const whole = Math.max(maxTrialNumber ?? created, created, 1);
  const ran = useRan(id, profile);
  const { made, open } = profile.confirmations ?? { made: 0, open: 0 };
  const finished = ended - leftOut - (made - open);
  return (
    <section className="card stack-small" aria-labelledby="progress-title">
      <h2 id="progress-title">{text.title}</h2>
      <p className="figure">
        <strong className="number">{formatNumber(finished)}</strong>{" "}
        <span className="soft">
          {finishedText(finished, created - leftOut - made, maxTrialNumber)}
          {leftOut === 0 ? null : text.leftOut(profile.retried, canceled)}
        </span>
      </p>
      <Progress
        label={text.trials}
        parts={there.map(({ status, look, count }) => ({
          look,
          share: count / whole,
          title: `${status}: ${formatNumber(count)}`,
        }))}
      />
      <Counts counts={there} withoutResult={profile.withoutResult} />
      <p>
        <strong className="number">{formatDuration(Math.floor(ran))}</strong>{" "}
        <span className="soft">
          {maxExperimentDurationS === null
            ? text.passed
            : text.passedOf(formatDuration(maxExperimentDurationS))}
        </span>
      </p>
      {maxExperimentDurationS === null ? null : (
        <Progress
          label={text.time}
          parts={[
            { look: "accent", share: ran / maxExperimentDurationS, title: formatDuration(Math.floor(ran)) },
          ]}
        />
      )}
      <Forecast profile={profile} />
      <Limits id={id} profile={profile} ran={ran} />
    </section>
  );
}

/** The number of trials of each status, as links to them. */
function Counts({
  counts,
  withoutResult,
}: {
  counts: readonly { status: keyof Profile["counts"] & string; count: number }[];
  withoutResult: number;
}) {
  if (counts.length === 0) return <p className="soft">{text.none}</p>;
  return (
    <ul className="counts" aria-label={text.counts}>
      {counts.map(({ status, count }) => (
        <li key={status}>
          <Link href={`/trials?status=${status}`} aria-label={text.show(formatNumber(count), status)}>
            <StatusBadge status={status} />
            <span className="number">{formatNumber(count)}</span>
          </Link>
        </li>
      ))}
      {withoutResult === 0 ? null : (
        <li>
          <Link href="/trials?result=none" aria-label={text.show(formatNumber(withoutResult), text.noResult)}>
            <span className="badge warn">
              <span aria-hidden>∅</span>
              {text.noResult}
            </span>
            <span className="number">{formatNumber(withoutResult)}</span>
          </Link>
        </li>
      )}
    </ul>
  );
}

/** How fast trials come, and when a limit will end the experiment. */
function Forecast({ profile }: { profile: Profile }) {
  const { pace } = profile;
  if (pace === null) return null;
  const { trialsPerMinute, remainingS, limit } = pace;
  return (
    <p className="soft">
      {trialsPerMinute === null ? text.noPace : text.pace(shownPace(trialsPerMinute))}
      {remainingS === null || limit === null ? null : `; ${text.ends[limit](shownRest(remainingS))}`}
    </p>
  );
}

function shownPace(perMinute: number): string {
  const [value, unit] = perMinute >= 1 ? [perMinute, text.minute] : [perMinute * 60, text.hour];
  return `${formatNumber(Number(value.toPrecision(2)))} ${unit}`;
}

/** Two digits are all that a forecast is worth. */
function shownRest(seconds: number): string {
  const step = seconds < 60 ? 1 : seconds < 3600 ? 60 : seconds < 86_400 ? 600 : 3600;
  return formatDuration(Math.max(1, Math.ceil(seconds / step)) * step);
}

function Limits({ id, profile, ran }: { id: string; profile: Profile; ran: number }) {
  const { maxTrialNumber, trialConcurrency, maxExperimentDurationS: longest } = profile.limits;
  const refused = whyFixed(profile);
  const priority = Number(profile.config.priority ?? 0);
  return (
    <dl className="facts">
      <EditLimit
        id={id}
        name="trialConcurrency"
        label={text.slots}
        present={trialConcurrency}
        shown={formatNumber(trialConcurrency)}
        typed={String(trialConcurrency)}
        read={(typed) => readCount(typed, trialConcurrency)}
        refused={refused}
      />
      <EditLimit
        id={id}
        name="maxTrialNumber"
        label={text.mostTrials}
        present={maxTrialNumber}
        shown={maxTrialNumber === null ? strings.common.unlimited : formatNumber(maxTrialNumber)}
        typed={maxTrialNumber === null ? "" : String(maxTrialNumber)}
        read={(typed) => readCount(typed, maxTrialNumber)}
        liftable={maxTrialNumber !== null}
        refused={refused}
      />
      <EditLimit
        id={id}
        name="maxExperimentDuration"
        label={text.longest}
        present={longest}
        shown={longest === null ? strings.common.unlimited : formatDuration(longest)}
        {...(longest === null ? { typed: "", unit: "h" as const } : inUnits(longest))}
        read={(input, unit) => readDuration(input, unit, longest, ran)}
        liftable={longest !== null}
        refused={refused}
      />
      <EditLimit
        id={id}
        name="priority"
        label={text.priority}
        present={priority}
        shown={String(priority)}
        typed={String(priority)}
        read={(typed) => readPriority(typed, priority)}
        refused={refused}
      />
      <div>
        <dt>{text.started}</dt>
        <dd className="number">{formatInstant(profile.createdAt)}</dd>
      </div>
      {MOVING.has(profile.status) ? null : (
        <div>
          <dt>{text.ended}</dt>
          <dd className="number">{formatInstant(profile.endedAt)}</dd>
        </div>
      )}
    </dl>
  );
}

/** Seconds for which the experiment has run, counted on since the profile was read. */
function useRan(id: string, profile: Profile): number {
  const { dataUpdatedAt } = useQuery(profileQuery(id));
  const now = useSecond();
  if (!profile.served || !MOVING.has(profile.status)) return profile.durationS;
  return profile.durationS + Math.max(0, now - dataUpdatedAt) / 1000;
}
