import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answerOf, api } from "@/api/client";
import { trialQuery } from "@/data/trials";
import { strings } from "@/strings";
import { Confirm } from "@/ui/Dialog";
import { complain, say } from "@/ui/toasts";

const text = strings.trial.actions;

interface LostDialogProps {
  id: string;
  trial: { id: string; sequence: number };
  onClose: () => void;
}

/** Declares that the silent machine of a trial will not come back. */
export function LostDialog({ id, trial, onClose }: LostDialogProps) {
  const client = useQueryClient();
  const params = { path: { id, trialId: trial.id } };
  const lose = useMutation({
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/trials/{trialId}/lost", { params })),
    onSuccess: () => say(text.lostDone(trial.sequence)),
    onError: complain,
    onSettled: () => {
      onClose();
      void client.invalidateQueries({ queryKey: trialQuery(id, trial.id).queryKey });
    },
  });
  return (
    <Confirm
      title={text.lostTitle(trial.sequence)}
      text={<p>{text.lostText}</p>}
      action={text.lostAction}
      danger
      busy={lose.isPending}
      onConfirm={() => lose.mutate()}
      onClose={onClose}
    />
  );
}
