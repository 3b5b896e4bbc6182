import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { trialUsageQuery } from "@/data/usage";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { UsageCharts } from "@/ui/usage/UsageCharts";

interface UsageOfAttemptProps {
  id: string;
  trial: Schemas["TrialDetail"];
  job: Schemas["Job"];
}

/** CPUs and memory that the processes of an attempt use. */
export function UsageOfAttempt({ id, trial, job }: UsageOfAttemptProps) {
  const usage = useQuery(trialUsageQuery(id, trial.id, job.attempt, job.endedAt === null));
  if (usage.data !== undefined) return <UsageCharts samples={usage.data} note={strings.usage.trialNote} />;
  return usage.isError ? (
    <Failure error={usage.error} onRetry={() => void usage.refetch()} />
  ) : (
    <p className="soft">{strings.common.loading}</p>
  );
}
