import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import {
  runs,
  startTensorboard,
  stopTensorboard,
  tensorboardsQuery,
  type TensorBoard,
} from "@/data/tensorboards";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { formatInstant } from "@/ui/format";
import { complain, say } from "@/ui/toasts";
import "./tensorboard.css";

const text = strings.tensorboard;

interface TensorBoardDialogProps {
  id: string;
  /** How many trials a new one shows; 0: all. */
  count: number;
  /** Their ids; null: all. */
  chosen: () => Promise<readonly string[] | null>;
  onClose: () => void;
}

/** Starts a TensorBoard over the chosen trials, and lists those of the experiment. */
export function TensorBoardDialog({ id, count, chosen, onClose }: TensorBoardDialogProps) {
  const client = useQueryClient();
  const tasks = useQuery(tensorboardsQuery(id));
  const again = () => void client.invalidateQueries({ queryKey: tensorboardsQuery(id).queryKey });
  const starting = useMutation({
    mutationFn: async () => startTensorboard(id, await chosen()),
    onSuccess: ({ path }) => {
      // a browser that refuses to open it leaves the link in the list
      window.open(path, "_blank", "noopener");
    },
    onError: complain,
    onSettled: again,
  });
  const stopping = useMutation({
    mutationFn: (task: string) => stopTensorboard(id, task),
    onSuccess: (task) => say(text.stopped(task.id)),
    onError: complain,
    onSettled: again,
  });
  const shown = tasks.data?.filter((task) => runs(task) || task.status === "ERROR") ?? [];
  return (
    <Dialog title={text.title} onClose={onClose} narrow>
      <div className="stack-small">
        <p>{text.about}</p>
        <div>
          <Button look="primary" disabled={starting.isPending} onClick={() => starting.mutate()}>
            {count === 0 ? text.startAll : text.startSome(count)}
          </Button>
        </div>
        <h3>{text.running}</h3>
        {tasks.isError ? <Failure error={tasks.error} onRetry={() => void tasks.refetch()} /> : null}
        {tasks.isSuccess && shown.length === 0 ? <p className="soft">{text.none}</p> : null}
        <ul className="tensorboards">
          {shown.map((task) => (
            <Task
              key={task.id}
              task={task}
              busy={stopping.isPending}
              onStop={() => stopping.mutate(task.id)}
            />
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

interface TaskProps {
  task: TensorBoard;
  busy: boolean;
  onStop: () => void;
}

function Task({ task, busy, onStop }: TaskProps) {
  return (
    <li>
      <div className="row">
        <span className="grow">
          {text.task(task.id, task.trialIds.length, formatInstant(task.startedAt))}
          <small className="soft tensorboard-status">
            {task.message ?? text.statuses[task.status] ?? task.status}
          </small>
        </span>
        {runs(task) ? (
          <>
            <a
              className="button small"
              href={task.path}
              target="_blank"
              rel="noopener"
              aria-label={text.showOf(task.id)}
            >
              {text.show}
            </a>
            <Button small look="danger" disabled={busy} onClick={onStop} aria-label={text.stopOf(task.id)}>
              {text.stop}
            </Button>
          </>
        ) : null}
      </div>
    </li>
  );
}
