/** From which checkpoint of a trial a new trial can continue. */
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";

type Checkpoint = Schemas["Checkpoint"];

const text = strings.customTrial;

export interface ForkPoint {
  trialId: string;
  checkpoint: Checkpoint;
  /** The trial's newest checkpoint is meant, also if another one is saved meanwhile. */
  newest: boolean;
}

/** Whether the files of a checkpoint are still on its machine. */
export const isSaved = (checkpoint: Checkpoint): boolean => checkpoint.state === "saved";

/** The newest checkpoint of a trial; null: it has none from which a trial could continue. */
export function newestPoint(trial: Schemas["TrialDetail"]): ForkPoint | null {
  const checkpoint = trial.checkpoints.findLast(isSaved);
  return checkpoint === undefined ? null : { trialId: trial.id, checkpoint, newest: true };
}

export function whereOf({ checkpoint, newest }: ForkPoint): string {
  const { step, attempt, number } = checkpoint;
  const where = step === null ? text.checkpoint(attempt, number) : text.step(formatNumber(step));
  return newest ? text.newest(where) : where;
}
