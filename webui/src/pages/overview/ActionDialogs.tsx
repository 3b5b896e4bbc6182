import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answerOf, api } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { deleteExperiment, WAYS_TO_STOP, type WayToStop } from "@/data/experiments";
import { strings } from "@/strings";
import { Confirm } from "@/ui/Dialog";
import { formatNumber } from "@/ui/format";
import { complain, say } from "@/ui/toasts";

const text = strings.overview.actions;

interface DialogProps {
  id: string;
  profile: Profile;
  onClose: () => void;
  onDone: () => void;
}

export function StopDialog({ id, profile, onClose, onDone }: DialogProps) {
  const [way, setWay] = useState<WayToStop>("end");
  const { WAITING = 0, RUNNING = 0, PAUSED = 0, UNKNOWN = 0 } = profile.counts;
  const resume = () =>
    answerOf(api.POST("/api/v1/experiments/{id}/resume", { params: { path: { id } } })).finally(onDone);
  const stop = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST("/api/v1/experiments/{id}/stop", {
          params: { path: { id } },
          body: { detach: way === "detach", save: way === "save" },
        }),
      ),
    onSuccess: ({ stillRunning, unsaved, left, serverLeaves }) => {
      const more = [
        ...(stillRunning.length === 0 ? [] : [text.stillRunning(stillRunning.length)]),
        ...(unsaved.length === 0 ? [] : [text.unsaved(unsaved.length)]),
      ];
      say(
        [text.stopped, ...more, ...left, ...(serverLeaves ? [text.serverLeaves] : [])].join(" "),
        serverLeaves ? null : resume,
      );
      onClose();
    },
    onError: complain,
    onSettled: onDone,
  });
  return (
    <Confirm
      title={text.stopTitle(profile.name || id)}
      danger
      busy={stop.isPending}
      action={text.stopAction}
      onConfirm={() => stop.mutate()}
      onClose={onClose}
      text={
        <div className="stack-small">
          <p>{text.stopText(WAITING + RUNNING + PAUSED + UNKNOWN)}</p>
          {WAYS_TO_STOP.map((value) => (
            <label key={value} className="choice">
              <input type="radio" name="way" checked={way === value} onChange={() => setWay(value)} />
              {text.waysToStop[value]}
            </label>
          ))}
        </div>
      }
    />
  );
}

export function DeleteDialog({ id, profile, onClose, onDone }: DialogProps) {
  const [leave, setLeave] = useState(false);
  const client = useQueryClient();
  const trials = Object.values(profile.counts).reduce((sum, count) => sum + count, 0);
  const remove = useMutation({
    mutationFn: () => deleteExperiment(profile, leave),
    onSuccess: (left) => {
      say([text.deleted(profile.name || id), ...left].join(" "));
      void client.invalidateQueries({ queryKey: ["list"] });
      onDone();
    },
    onError: complain,
  });
  return (
    <Confirm
      title={text.deleteTitle(profile.name || id)}
      danger
      busy={remove.isPending}
      action={text.deleteAction}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
      text={
        <div className="stack-small">
          <p>{text.deleteText(formatNumber(trials), profile.directory)}</p>
          <label className="choice">
            <input type="checkbox" checked={leave} onChange={(event) => setLeave(event.target.checked)} />
            {text.deleteLeave}
          </label>
        </div>
      }
    />
  );
}
