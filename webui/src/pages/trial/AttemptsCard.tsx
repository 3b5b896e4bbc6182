import { useId } from "react";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatDuration, formatInstant } from "@/ui/format";
import { useSecond } from "@/ui/useSecond";
import { stretches, type Stretch } from "./timeline";

const text = strings.trial.attempts;
const times = strings.trial.timeline;

type TrialDetail = Schemas["TrialDetail"];
type Job = Schemas["Job"];

/** Where and when it was tried, and how each attempt ended. */
export function AttemptsCard({ trial }: { trial: TrialDetail }) {
  const title = useId();
  const now = useSecond();
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <h3 id={title}>{text.title}</h3>
      <Timeline all={stretches(trial, now)} />
      {trial.jobs.length === 0 ? (
        <p className="soft">{text.none}</p>
      ) : (
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard
        <div className="scrolls-x" role="region" aria-label={text.table} tabIndex={0}>
          <table className="plain attempts">
            <thead>
              <tr>
                {(["attempt", "place", "gpus", "placed", "started", "ended", "duration", "why"] as const).map(
                  (name) => (
                    <th key={name} scope="col">
                      {text[name]}
                    </th>
                  ),
                )}
              </tr>
            </thead>
            <tbody>
              {[...trial.jobs].reverse().map((job) => (
                <Attempt key={job.id} job={job} now={now} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Attempt({ job, now }: { job: Job; now: number }) {
  const ran =
    job.startedAt === null
      ? null
      : ((job.endedAt === null ? now : Date.parse(job.endedAt)) - Date.parse(job.startedAt)) / 1000;
  return (
    <tr>
      <th scope="row" className="number">
        {job.attempt}
      </th>
      <td>{place(job)}</td>
      <td className="number">{job.gpus.length === 0 ? strings.common.notAvailable : job.gpus.join(", ")}</td>
      <td className="number">{formatInstant(job.placedAt)}</td>
      <td className="number" title={job.pid === null ? undefined : text.pid(job.pid)}>
        {formatInstant(job.startedAt)}
      </td>
      <td className="number">{formatInstant(job.endedAt)}</td>
      <td className="number">{formatDuration(ran === null ? null : Math.max(0, ran))}</td>
      <td className="why">{howEnded(job)}</td>
    </tr>
  );
}

/** The machine of an attempt, or those of all its members, and why it runs there if another platform came first. */
function place(job: Job): string {
  if (job.keeperId === null) return text.notPlaced;
  const keepers = job.members.length === 0 ? [job.keeperId] : job.members.map((member) => member.keeperId);
  const names = keepers.map((keeper) => text.places[keeper] ?? keeper).join(", ");
  return job.placeReason === null ? names : `${names} (${job.placeReason})`;
}

function howEnded(job: Job): string {
  if (job.endedAt === null) return job.startedAt === null ? text.waiting : text.running;
  const parts = [
    job.endReason,
    job.exitCode === null ? null : text.exit(job.exitCode),
    job.signal === null ? null : text.signal(job.signal),
    job.cause === null ? null : text.cause[job.cause],
  ].filter((part) => part !== null);
  return [parts.join(", "), job.message].filter((part) => part !== null && part !== "").join(": ");
}

function Timeline({ all }: { all: readonly Stretch[] }) {
  const [first, last] = [all[0], all.at(-1)];
  if (first === undefined || last === undefined) return null;
  const whole = last.to - first.from;
  return (
    <ol className="timeline" aria-label={times.title}>
      {all.map((stretch) => {
        const time = formatDuration((stretch.to - stretch.from) / 1000);
        const label =
          stretch.kind === "waited" || stretch.kind === "between"
            ? times[stretch.kind](time)
            : times[stretch.kind](stretch.attempt, time);
        return (
          <li
            key={`${stretch.kind} ${stretch.from}`}
            className={stretch.kind}
            title={label}
            style={{ flexGrow: (stretch.to - stretch.from) / whole }}
          >
            <span>{label}</span>
          </li>
        );
      })}
    </ol>
  );
}
