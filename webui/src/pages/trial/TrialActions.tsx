import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { answerOf, api, type Schemas } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { LIVE_STATUSES, trialQuery } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Confirm } from "@/ui/Dialog";
import { complain, say } from "@/ui/toasts";
import { TensorBoardDialog } from "@/ui/trial/TensorBoardDialog";
import { CustomTrial, whyNoTrial } from "@/ui/trial/CustomTrial";
import { newestPoint } from "@/ui/trial/fork";
import { LostDialog } from "@/ui/trial/LostDialog";

const text = strings.trial.actions;

interface TrialActionsProps {
  id: string;
  trial: Schemas["TrialDetail"];
  profile: Profile | undefined;
}

/** What can be done with a trial; only what has an effect now. */
export function TrialActions({ id, trial, profile }: TrialActionsProps) {
  const [dialog, setDialog] = useState<"kill" | "lost" | "clone" | "fork" | "tensorboard" | null>(null);
  const [, go] = useLocation();
  const client = useQueryClient();
  const close = () => setDialog(null);
  const params = { path: { id, trialId: trial.id } };
  const shared = {
    onError: complain,
    onSettled: () => {
      close();
      void client.invalidateQueries({ queryKey: trialQuery(id, trial.id).queryKey });
    },
  };
  const kill = useMutation({
    ...shared,
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/trials/{trialId}/stop", { params })),
    onSuccess: () => say(text.killed(trial.sequence)),
  });
  const pause = useMutation({
    ...shared,
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/trials/{trialId}/pause", { params })),
    onSuccess: () => say(text.paused(trial.sequence)),
  });
  const save = useMutation({
    ...shared,
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/trials/{trialId}/save", { params })),
    onSuccess: () => say(text.saved(trial.sequence)),
  });
  const resume = useMutation({
    ...shared,
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/trials/{trialId}/resume", { params })),
    onSuccess: () => say(text.resumed(trial.sequence)),
  });
  const retry = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST("/api/v1/experiments/{id}/rerun", {
          params: { path: { id } },
          body: { trialIds: [trial.id] },
        }),
      ),
    onSuccess: ({ trials }) => {
      const [started] = trials;
      if (started === undefined) return;
      say(text.retried(started.sequence));
      go(`/trials/${started.id}`);
    },
    onError: complain,
  });
  const served = profile?.served === true && profile.status !== "VIEWED";
  const refused = profile === undefined ? null : whyNoTrial(profile);
  const point = newestPoint(trial);
  return (
    <div className="row" role="group" aria-label={text.label}>
      {served && trial.status === "PAUSED" ? (
        <Button disabled={resume.isPending} onClick={() => resume.mutate()}>
          {text.resume}
        </Button>
      ) : null}
      {served && trial.detail !== "stopping" && (trial.status === "RUNNING" || trial.status === "WAITING") ? (
        <Button disabled={pause.isPending} onClick={() => pause.mutate()}>
          {text.pause}
        </Button>
      ) : null}
      {served && trial.detail !== "stopping" && trial.status === "RUNNING" ? (
        <Button disabled={save.isPending} title={text.saveAbout} onClick={() => save.mutate()}>
          {text.save}
        </Button>
      ) : null}
      {served && LIVE_STATUSES.includes(trial.status) ? (
        <Button look="danger" onClick={() => setDialog("kill")}>
          {text.kill}
        </Button>
      ) : null}
      {served && trial.status === "UNKNOWN" ? (
        <Button look="danger" onClick={() => setDialog("lost")}>
          {text.lost}
        </Button>
      ) : null}
      {served && trial.status === "FAILED" && trial.retriedAs === null ? (
        <Button disabled={retry.isPending} onClick={() => retry.mutate()}>
          {text.retry}
        </Button>
      ) : null}
      <Button
        disabled={profile === undefined || refused !== null}
        title={refused ?? undefined}
        onClick={() => setDialog("clone")}
      >
        {text.clone}
      </Button>
      {served && point !== null ? (
        <Button disabled={refused !== null} title={refused ?? undefined} onClick={() => setDialog("fork")}>
          {text.fork}
        </Button>
      ) : null}
      <Button onClick={() => setDialog("tensorboard")}>{strings.tensorboard.open}</Button>
      {dialog === "kill" ? (
        <Confirm
          title={text.killTitle(trial.sequence)}
          text={<p>{text.killText}</p>}
          action={text.killAction}
          danger
          busy={kill.isPending}
          onConfirm={() => kill.mutate()}
          onClose={close}
        />
      ) : null}
      {dialog === "lost" ? <LostDialog id={id} trial={trial} onClose={close} /> : null}
      {dialog === "tensorboard" ? (
        <TensorBoardDialog id={id} count={1} chosen={() => Promise.resolve([trial.id])} onClose={close} />
      ) : null}
      {dialog === "clone" ? <CustomTrial id={id} base={trial} onClose={close} /> : null}
      {dialog === "fork" && point !== null ? (
        <CustomTrial id={id} base={trial} fork={point} onClose={close} />
      ) : null}
    </div>
  );
}
