/** Confirmations of what is done to selected trials: they name the trials that it is done to. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { answerOf, api } from "@/api/client";
import { LIVE_STATUSES, readTrials, type Trial, type TrialsQuestion, type TrialStatus } from "@/data/trials";
import { strings } from "@/strings";
import { Confirm, Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { complain, say } from "@/ui/toasts";
import type { Selection } from "./view";

const text = strings.trials;

interface EndDialogProps {
  id: string;
  question: TrialsQuestion;
  selection: Selection;
  /** How many are selected. */
  count: number;
  onDone: () => void;
  onClose: () => void;
}

/** The selected trials with one of these statuses, as they are when the dialog opens. */
function useChosen(
  { id, question, selection }: EndDialogProps,
  name: string,
  statuses: readonly TrialStatus[],
) {
  const { all } = selection;
  const wanted =
    question.statuses.length === 0 ? statuses : statuses.filter((one) => question.statuses.includes(one));
  const asked: TrialsQuestion = all
    ? { ...question, statuses: wanted }
    : { ...question, filter: "", search: "", statuses };
  const ids = [...selection.ids];
  return useQuery({
    queryKey: ["static", id, name, asked, all, ids],
    queryFn: async ({ signal }) => {
      if (all && wanted.length === 0) return [];
      const trials = await readTrials(id, asked, signal);
      return trials.filter((trial) => all !== selection.ids.has(trial.id));
    },
    gcTime: 0,
    staleTime: 0,
  });
}

export function KillDialog(props: EndDialogProps) {
  const { id, count, onDone, onClose } = props;
  const chosen = useChosen(props, "kill", LIVE_STATUSES);
  const killing = useMutation({
    mutationFn: (trials: readonly Trial[]) => stopAll(id, trials),
    onSuccess: ({ stopped, refused }) => {
      if (stopped > 0) say(text.kill.done(stopped));
      for (const error of refused.slice(0, 3)) complain(error);
      onDone();
    },
  });
  return (
    <Question
      chosen={chosen}
      titleCounting={text.kill.titleCounting}
      title={text.kill.title}
      sentence={(trials) => text.kill.text(text.names(trials.map(sequenceOf)), count - trials.length)}
      nothing={text.kill.nothing}
      action={text.kill.action}
      danger
      busy={killing.isPending}
      onConfirm={killing.mutate}
      onClose={onClose}
    />
  );
}

export function RetryDialog(props: EndDialogProps) {
  const { id, count, onDone, onClose } = props;
  const chosen = useChosen(props, "retry", ["FAILED"]);
  const retrying = useMutation({
    mutationFn: (trials: readonly Trial[]) =>
      answerOf(
        api.POST("/api/v1/experiments/{id}/rerun", {
          params: { path: { id } },
          body: { trialIds: trials.map((trial) => trial.id) },
        }),
      ),
    onSuccess: ({ trials }) => {
      say(text.retry.done(trials.length, trials[0]?.sequence ?? 0));
      onDone();
    },
    onError: (error) => {
      complain(error);
      onClose();
    },
  });
  return (
    <Question
      chosen={chosen}
      titleCounting={text.retry.titleCounting}
      title={text.retry.title}
      sentence={(trials) => text.retry.text(text.names(trials.map(sequenceOf)), count - trials.length)}
      nothing={text.retry.nothing}
      action={text.retry.action}
      busy={retrying.isPending}
      onConfirm={retrying.mutate}
      onClose={onClose}
    />
  );
}

const sequenceOf = (trial: Trial) => trial.sequence;

interface QuestionProps {
  chosen: ReturnType<typeof useChosen>;
  titleCounting: string;
  title: (count: number) => string;
  sentence: (trials: readonly Trial[]) => string;
  nothing: string;
  action: string;
  danger?: boolean;
  busy: boolean;
  onConfirm: (trials: readonly Trial[]) => void;
  onClose: () => void;
}

function Question({
  chosen,
  titleCounting,
  title,
  sentence,
  nothing,
  action,
  danger = false,
  busy,
  onConfirm,
  onClose,
}: QuestionProps) {
  const trials = chosen.data;
  if (trials === undefined || trials.length === 0)
    return (
      <Dialog title={titleCounting} onClose={onClose} narrow>
        {chosen.isError ? (
          <Failure error={chosen.error} onRetry={() => void chosen.refetch()} />
        ) : (
          <p>{trials === undefined ? text.counting : nothing}</p>
        )}
      </Dialog>
    );
  return (
    <Confirm
      title={title(trials.length)}
      text={<p>{sentence(trials)}</p>}
      action={action}
      danger={danger}
      busy={busy}
      onConfirm={() => onConfirm(trials)}
      onClose={onClose}
    />
  );
}

const AT_ONCE = 4;

/** Stops the trials, a few at once; what was refused (most have ended meanwhile) is told, not raised. */
async function stopAll(
  id: string,
  trials: readonly Trial[],
): Promise<{ stopped: number; refused: unknown[] }> {
  const left = [...trials];
  const refused: unknown[] = [];
  const stop = async () => {
    for (let trial = left.shift(); trial !== undefined; trial = left.shift())
      await answerOf(
        api.POST("/api/v1/experiments/{id}/trials/{trialId}/stop", {
          params: { path: { id, trialId: trial.id } },
        }),
      ).catch((error: unknown) => refused.push(error));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, stop));
  return { stopped: trials.length - refused.length, refused };
}
