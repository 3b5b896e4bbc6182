import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { answerOf, api, type Schemas } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { trialQuery } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { formatBytes, formatInstant, formatNumber } from "@/ui/format";
import { complain } from "@/ui/toasts";
import { CustomTrial, whyNoTrial } from "@/ui/trial/CustomTrial";
import { isSaved } from "@/ui/trial/fork";

const text = strings.trial.checkpoints;

const PIN = "/api/v1/experiments/{id}/trials/{trialId}/checkpoints/{attempt}-{number}/pin";

type Checkpoint = Schemas["Checkpoint"];

interface CheckpointsCardProps {
  id: string;
  trial: Schemas["TrialDetail"];
  profile: Profile | undefined;
}

/**
 * The states that a trial has saved, the newest first, with buttons to fork and pin each; nothing without any.
 * Those that were deleted are shown on request.
 */
export function CheckpointsCard({ id, trial, profile }: CheckpointsCardProps) {
  const title = useId();
  const [forked, setForked] = useState<Checkpoint>();
  const [all, setAll] = useState(false);
  const client = useQueryClient();
  const pin = useMutation({
    mutationFn: ({ attempt, number, pinned }: Checkpoint) => {
      const path = { id, trialId: trial.id, attempt, number };
      return answerOf(pinned ? api.DELETE(PIN, { params: { path } }) : api.POST(PIN, { params: { path } }));
    },
    onError: complain,
    onSettled: () => {
      void client.invalidateQueries({ queryKey: trialQuery(id, trial.id).queryKey });
    },
  });
  if (trial.checkpoints.length === 0) return null;
  const there = trial.checkpoints.filter((each) => all || each.kept || each.state !== "deleted");
  const deleted = trial.checkpoints.length - there.length;
  const served = profile?.served === true && profile.status !== "VIEWED";
  const refused = profile === undefined ? null : whyNoTrial(profile);
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
            {there.reverse().map((checkpoint) => (
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
                    {served && (checkpoint.pinned || isSaved(checkpoint)) ? (
                      <Button
                        small
                        aria-pressed={checkpoint.pinned}
                        aria-label={pinLabel(checkpoint)}
                        title={text.pinAbout}
                        disabled={refused !== null || pin.isPending}
                        onClick={() => pin.mutate(checkpoint)}
                      >
                        {checkpoint.pinned ? text.unpin : text.pin}
                      </Button>
                    ) : null}
                    {checkpoint.pinned ? <span className="soft">{text.pinned}</span> : null}
                  </span>
                </td>
                <td>{copyOf(checkpoint)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {deleted === 0 ? null : (
        <div>
          <Button small onClick={() => setAll(true)}>
            {text.showDeleted(deleted)}
          </Button>
        </div>
      )}
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

function copyOf({ kept, stored }: Checkpoint): string {
  if (stored) return text.stored;
  return kept ? text.kept : strings.common.notAvailable;
}

const pinLabel = ({ pinned, attempt, number }: Checkpoint) =>
  pinned ? text.unpinNumber(attempt, number) : text.pinNumber(attempt, number);
