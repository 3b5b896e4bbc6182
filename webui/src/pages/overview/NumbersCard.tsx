import { Link } from "wouter";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { StatusBadge } from "@/ui/StatusBadge";
import { EditLimit } from "./EditLimit";
import { readCount } from "./limits";
import { Progress, type ProgressPart } from "./Progress";
import { whyFixed } from "./whyFixed";

const text = strings.overview.numbers;

/** In the order of the bar: what has ended well, what has ended otherwise, what goes on. */
const LOOKS = [
  ["SUCCEEDED", "good"],
  ["EARLY_STOPPED", "warn"],
  ["FAILED", "bad"],
  ["USER_CANCELED", "quiet"],
  ["SYS_CANCELED", "quiet"],
  ["RUNNING", "info"],
  ["UNKNOWN", "warn"],
  ["PAUSED", "quiet"],
  ["WAITING", "quiet"],
] as const satisfies readonly (readonly [keyof Profile["counts"] & string, ProgressPart["look"]])[];

/** How many trials there are, by status, against the limit. */
export function NumbersCard({ id, profile }: { id: string; profile: Profile }) {
  const { maxTrialNumber, trialConcurrency } = profile.limits;
  const counts = LOOKS.map(([status, look]) => ({ status, look, count: profile.counts[status] ?? 0 }));
  const there = counts.filter(({ count }) => count > 0);
  const created = there.reduce((sum, { count }) => sum + count, 0);
  const whole = Math.max(maxTrialNumber ?? created, created, 1);
  return (
    <section className="card stack-small" aria-labelledby="numbers-title">
      <h2 id="numbers-title">{text.title}</h2>
      <p className="figure">
        <strong className="number">{formatNumber(created)}</strong>{" "}
        <span className="soft">
          {text.created} {maxTrialNumber === null ? null : text.of(formatNumber(maxTrialNumber))}
        </span>
      </p>
      <Progress
        label={text.progress}
        parts={there.map(({ status, look, count }) => ({
          look,
          share: count / whole,
          title: `${status}: ${formatNumber(count)}`,
        }))}
      />
      {there.length === 0 ? (
        <p className="soft">{text.none}</p>
      ) : (
        <ul className="counts" aria-label={text.counts}>
          {there.map(({ status, count }) => (
            <li key={status}>
              <Link href={`/trials?status=${status}`} aria-label={text.show(formatNumber(count), status)}>
                <StatusBadge status={status} />
                <span className="number">{formatNumber(count)}</span>
              </Link>
            </li>
          ))}
          {profile.withoutResult === 0 ? null : (
            <li>
              <Link
                href="/trials?result=none"
                aria-label={text.show(formatNumber(profile.withoutResult), text.noResult)}
              >
                <span className="badge warn">
                  <span aria-hidden>∅</span>
                  {text.noResult}
                </span>
                <span className="number">{formatNumber(profile.withoutResult)}</span>
              </Link>
            </li>
          )}
        </ul>
      )}
      <dl className="facts">
        <EditLimit
          id={id}
          name="maxTrialNumber"
          label={text.limit}
          shown={maxTrialNumber === null ? strings.common.unlimited : formatNumber(maxTrialNumber)}
          typed={maxTrialNumber === null ? "" : String(maxTrialNumber)}
          read={(typed) => readCount(typed, maxTrialNumber)}
          liftable={maxTrialNumber !== null}
          refused={whyFixed(profile)}
        />
        <EditLimit
          id={id}
          name="trialConcurrency"
          label={text.concurrency}
          shown={formatNumber(trialConcurrency)}
          typed={String(trialConcurrency)}
          read={(typed) => readCount(typed, trialConcurrency)}
          refused={whyFixed(profile)}
        />
      </dl>
    </section>
  );
}
