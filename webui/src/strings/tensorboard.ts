import { counted } from "./count";

const trials = (count: number) => counted(count, "trial");

export const tensorboard = {
  open: "TensorBoard…",
  title: "TensorBoard",
  about: "TensorBoard shows the files that trials write to $NNI_OUTPUT_DIR/tensorboard.",
  startAll: "Start with all trials",
  startSome: (count: number) => `Start with ${trials(count)}`,
  running: "TensorBoards of this experiment",
  none: "No TensorBoard of this experiment runs.",
  show: "Open",
  showOf: (id: string) => `Open TensorBoard ${id}`,
  stop: "Stop",
  stopOf: (id: string) => `Stop TensorBoard ${id}`,
  stopped: (id: string) => `TensorBoard ${id} is stopped.`,
  task: (id: string, count: number, since: string) => `${id}: ${trials(count)}, started ${since}`,
  statuses: {
    RUNNING: "running",
    DOWNLOADING_DATA: "getting files from other machines",
    FAIL_DOWNLOAD_DATA: "cannot get files from other machines",
    STOPPING: "being stopped",
    STOPPED: "stopped",
    ERROR: "ended with an error",
  } as Readonly<Record<string, string>>,
} as const;
