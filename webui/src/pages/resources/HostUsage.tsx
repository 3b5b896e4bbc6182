import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Host } from "@/data/hosts";
import { machineUsageQuery } from "@/data/usage";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { UsageCharts } from "@/ui/usage/UsageCharts";

/** What the machine uses over time. It is read from the machine, so only when it is unfolded. */
export function HostUsage({ host }: { host: Host }) {
  const [open, setOpen] = useState(false);
  const member = host.experiments.find(({ status }) => status === "connected") ?? host.experiments[0];
  if (member === undefined) return null;
  return (
    <details className="folded" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{strings.resources.overTime}</summary>
      {open ? <Measured id={member.experimentId} keeper={member.machine} /> : null}
    </details>
  );
}

function Measured({ id, keeper }: { id: string; keeper: string }) {
  const usage = useQuery(machineUsageQuery(id, keeper));
  if (usage.data !== undefined) return <UsageCharts samples={usage.data} note={strings.usage.machineNote} />;
  return usage.isError ? (
    <Failure error={usage.error} onRetry={() => void usage.refetch()} />
  ) : (
    <p className="soft">{strings.common.loading}</p>
  );
}
