import { useId } from "react";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatBytes, formatInstant } from "@/ui/format";

const text = strings.trial.checkpoints;

/** The saved states of a trial, the newest first; nothing if it has saved none. */
export function CheckpointsCard({ trial }: { trial: Schemas["TrialDetail"] }) {
  const title = useId();
  if (trial.checkpoints.length === 0) return null;
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <h3 id={title}>{text.title}</h3>
      <p className="soft">{text.about}</p>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard */}
      <div className="scrolls-x" role="region" aria-label={text.table} tabIndex={0}>
        <table className="plain">
          <thead>
            <tr>
              {(["step", "attempt", "saved", "size", "files", "state", "copy"] as const).map((name) => (
                <th key={name} scope="col">
                  {text[name]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {[...trial.checkpoints].reverse().map((checkpoint) => (
              <tr key={`${checkpoint.attempt}-${checkpoint.number}`}>
                <th scope="row" className="number">
                  {checkpoint.step ?? strings.common.notAvailable}
                </th>
                <td className="number">{checkpoint.attempt}</td>
                <td className="number">{formatInstant(checkpoint.at)}</td>
                <td className="number">{formatBytes(checkpoint.size)}</td>
                <td className="number">{checkpoint.files}</td>
                <td>{text.states[checkpoint.state] ?? checkpoint.state}</td>
                <td>{checkpoint.kept ? text.kept : strings.common.notAvailable}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
