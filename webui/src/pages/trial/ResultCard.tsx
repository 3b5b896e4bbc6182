import { useId } from "react";
import { Link } from "wouter";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";

const text = strings.trial.result;

interface ResultCardProps {
  trial: Schemas["TrialDetail"];
  best: Schemas["BestTrial"] | null;
}

/** What the trial has reported. */
export function ResultCard({ trial, best }: ResultCardProps) {
  const title = useId();
  const none = trial.endedAt === null ? text.none : text.never;
  const raw = trial.finalText ?? trial.latestText;
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <h3 id={title}>{text.title}</h3>
      <dl className="facts">
        <div>
          <dt>{text.final}</dt>
          <dd className="number">
            {trial.finalText === null ? <span className="soft">{none}</span> : null}
            <strong>{trial.finalText === null ? null : formatNumber(trial.finalValue)}</strong>
          </dd>
        </div>
        <div>
          <dt>{text.latest}</dt>
          <dd className="number">
            {trial.latestText === null ? (
              <span className="soft">{none}</span>
            ) : (
              formatNumber(trial.latestValue)
            )}
          </dd>
        </div>
        <div>
          <dt>{text.reports}</dt>
          <dd className="number">{formatNumber(trial.intermediates)}</dd>
        </div>
        {raw === null ? null : (
          <div>
            <dt>{text.raw}</dt>
            <dd>
              <code title={raw}>{raw}</code>
            </dd>
          </div>
        )}
        {best === null ? null : (
          <div>
            <dt>{text.best}</dt>
            <dd className="number">
              {formatNumber(best.value)}
              <Link href={`/trials/${best.trialId}`}>{strings.trial.title(best.sequence)}</Link>
            </dd>
          </div>
        )}
      </dl>
    </section>
  );
}
