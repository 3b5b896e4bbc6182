import { useId } from "react";
import { Link } from "wouter";
import type { Schemas } from "@/api/client";
import type { Leg } from "@/data/lineage";
import { strings } from "@/strings";
import { formatInstant, formatNumber } from "@/ui/format";
import { changesOf, changeText, type Change } from "./legs";

const text = strings.trial.legs;

/** The stretches of a trial with other parameters, the newest first; nothing if it has only one. */
export function LegsCard({ trial }: { trial: Schemas["TrialDetail"] }) {
  const title = useId();
  if (trial.legs.length === 0) return null;
  const changes = changesOf(trial.legs, trial.firstParameters);
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <h3 id={title}>{text.title}</h3>
      <p className="soft">{text.about}</p>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard */}
      <div className="scrolls-x" role="region" aria-label={text.table} tabIndex={0}>
        <table className="plain attempts">
          <thead>
            <tr>
              {(["leg", "began", "from", "changed", "why"] as const).map((name) => (
                <th key={name} scope="col">
                  {text[name]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {trial.legs
              .map((leg, at) => <Row key={leg.leg} leg={leg} changes={changes[at] ?? []} />)
              .reverse()}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ leg, changes }: { leg: Leg; changes: readonly Change[] }) {
  return (
    <tr>
      <th scope="row" className="number">
        {leg.leg}
      </th>
      <td className="number">{formatInstant(leg.at)}</td>
      <td>
        {leg.step === null ? text.checkpoint(leg.originNumber) : text.step(formatNumber(leg.step))}
        {leg.originTrialId === leg.trialId ? (
          ` ${text.ofItself}`
        ) : (
          <>
            {` ${text.of} `}
            <Link href={`/trials/${leg.originTrialId}`}>{leg.originTrialId}</Link>
          </>
        )}
      </td>
      <td>
        {changes.length === 0 ? (
          <span className="soft">{text.unchanged}</span>
        ) : (
          <ul className="changes number">
            {changes.map((change) => (
              <li key={change.name}>{changeText(change)}</li>
            ))}
          </ul>
        )}
      </td>
      <td className="why">{leg.reason}</td>
    </tr>
  );
}
