/** What a trial did when: one stretch after the other, from its creation. */
import type { Schemas } from "@/api/client";

type Trial = Schemas["TrialDetail"];

export interface Stretch {
  readonly kind: "waited" | "starting" | "running" | "between";
  readonly attempt: number;
  readonly from: number; // ms since 1970
  readonly to: number;
}

export function stretches(trial: Trial, now: number): Stretch[] {
  const found: Stretch[] = [];
  let at = Date.parse(trial.createdAt);
  const until = (kind: Stretch["kind"], attempt: number, end: number) => {
    if (end > at) found.push({ kind, attempt, from: at, to: end });
    at = Math.max(at, end);
  };
  const last = trial.endedAt === null ? now : Date.parse(trial.endedAt);
  for (const [index, job] of trial.jobs.entries()) {
    const ended = job.endedAt === null ? last : Date.parse(job.endedAt);
    until(
      index === 0 ? "waited" : "between",
      job.attempt,
      job.placedAt === null ? ended : Date.parse(job.placedAt),
    );
    if (job.placedAt !== null)
      until("starting", job.attempt, job.startedAt === null ? ended : Date.parse(job.startedAt));
    if (job.startedAt !== null) until("running", job.attempt, ended);
  }
  until(trial.jobs.length === 0 ? "waited" : "between", trial.attempt, last);
  return found;
}
