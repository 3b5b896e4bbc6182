import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { curveQuery, DEFAULT_KEY, keysOf, summaryOf } from "@/data/metrics";
import { trialQuery, type Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { CurveChart } from "@/ui/trial/CurveChart";

const text = strings.trials.curve;

/** The intermediate results of a trial, as they come. */
export default function CurveDialog({
  id,
  trialId,
  onClose,
}: {
  id: string;
  trialId: string;
  onClose: () => void;
}) {
  const trial = useQuery(trialQuery(id, trialId));
  const title = trial.data === undefined ? strings.trials.row.intermediate : text.title(trial.data.sequence);
  return (
    <Dialog title={title} onClose={onClose}>
      {trial.data === undefined ? null : <TrialCurve id={id} trial={trial.data} />}
      {trial.isError ? <Failure error={trial.error} onRetry={() => void trial.refetch()} /> : null}
    </Dialog>
  );
}

function TrialCurve({ id, trial }: { id: string; trial: Trial }) {
  const curve = useQuery(curveQuery(id, trial, trial.endedAt !== null));
  const lines = useMemo(
    () =>
      curve.data === undefined ? [] : [{ name: strings.compare.trial(trial.sequence), curve: curve.data }],
    [trial.sequence, curve.data],
  );
  if (curve.isError && curve.data === undefined)
    return <Failure error={curve.error} onRetry={() => void curve.refetch()} />;
  if (curve.data === undefined) return <p className="soft">{strings.common.loading}</p>;
  const summary = summaryOf(curve.data, keysOf([curve.data])[0] ?? DEFAULT_KEY);
  if (summary === null) return <p className="soft">{text.none}</p>;
  return <CurveChart title={strings.trials.row.intermediate} summary={summary} lines={lines} />;
}
