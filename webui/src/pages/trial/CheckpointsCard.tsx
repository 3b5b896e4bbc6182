import { useId, useState } from "react";
import type { Schemas } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { formatBytes, formatInstant, formatNumber } from "@/ui/format";
import { CustomTrial, whyNoTrial } from "@/ui/trial/CustomTrial";
import { isSaved } from "@/ui/trial/fork";

const text = strings.trial.checkpoints;

type Checkpoint = Schemas["Checkpoint"];

interface CheckpointsCardProps {
  id: string;
  trial: Schemas["TrialDetail"];
  profile: Profile | undefined;
}

/** The states that a trial has saved, the newest first, with a button to fork each; nothing if there are none. */
export function CheckpointsCard({ id, trial, profile }: CheckpointsCardProps) {
  const title = useId();
  const [forked, setForked] = useState<Checkpoint>();
  if (trial.checkpoints.length === 0) return null;
  const served = profile?.served === true && profile.status !== "VIEWED";
  const refused = profile === undefined ? null : whyNoTrial(profile.status);
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <h3 id={title}>{text.title}</h3>
      <p className="soft">{text.about}</p>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard */}
      <div className="scrolls-x" role="region" aria-label={text.table} tabIndex={0}>
        <table className="plain attempts">
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
                <td className="why">
                  <span className="row">
                    {text.states[checkpoint.state] ?? checkpoint.state}
                    {served && isSaved(checkpoint) ? (
                      <Button
                        small
                        aria-label={forkLabel(checkpoint)}
                        disabled={refused !== null}
                        title={refused ?? undefined}
                        onClick={() => setForked(checkpoint)}
                      >
                        {text.fork}
                      </Button>
                    ) : null}
                  </span>
                </td>
                <td>{checkpoint.kept ? text.kept : strings.common.notAvailable}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {forked === undefined ? null : (
        <CustomTrial
          id={id}
          base={trial}
          fork={{ trialId: trial.id, checkpoint: forked, newest: false }}
          onClose={() => setForked(undefined)}
        />
      )}
    </section>
  );
}

const forkLabel = ({ step, attempt, number }: Checkpoint) =>
  step === null ? text.forkFromNumber(attempt, number) : text.forkFrom(formatNumber(step));
