import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Host } from "@/data/hosts";
import { keepersQuery, machineUsageQuery } from "@/data/usage";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { UsageCharts } from "@/ui/usage/UsageCharts";
import { keeperName, keepersNotInUse } from "./keepers";

const texts = strings.resources;

/** What the machine uses over time. It is read from the machine, so only when it is unfolded. */
export function HostUsage({ host }: { host: Host }) {
  const member = host.experiments.find(({ status }) => status === "connected") ?? host.experiments[0];
  if (member === undefined) return null;
  return <KeeperUsage id={member.experimentId} keeper={member.machine} live label={texts.overTime} />;
}

/** What machines have used that the experiment does not use now, as after its end. `used`: those in use. */
export function PastUsage({ id, used }: { id: string; used: readonly Host[] }) {
  const keepers = useQuery(keepersQuery(id));
  const past = keepersNotInUse(keepers.data ?? [], used, id);
  if (keepers.isError) return <Failure error={keepers.error} onRetry={() => void keepers.refetch()} />;
  if (past.length === 0) return null;
  return (
    <section className="card">
      <h2>{texts.past}</h2>
      <p className="soft">{texts.pastText}</p>
      {past.map((keeper) => (
        <KeeperUsage key={keeper.id} id={id} keeper={keeper.id} live={false} label={keeperName(keeper)} />
      ))}
    </section>
  );
}

interface KeeperUsageProps {
  id: string;
  keeper: string;
  live: boolean;
  label: string;
}

function KeeperUsage({ label, ...measured }: KeeperUsageProps) {
  const [open, setOpen] = useState(false);
  return (
    <details className="folded" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {open ? <Measured {...measured} /> : null}
    </details>
  );
}

function Measured({ id, keeper, live }: Omit<KeeperUsageProps, "label">) {
  const usage = useQuery(machineUsageQuery(id, keeper, live));
  if (usage.data !== undefined) return <UsageCharts samples={usage.data} note={strings.usage.machineNote} />;
  return usage.isError ? (
    <Failure error={usage.error} onRetry={() => void usage.refetch()} />
  ) : (
    <p className="soft">{strings.common.loading}</p>
  );
}
