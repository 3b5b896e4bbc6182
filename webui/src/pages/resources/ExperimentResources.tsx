import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "@/api/client";
import { hostsQuery, machinesQuery } from "@/data/hosts";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Failure } from "@/ui/Failure";
import { AddMachine } from "./AddMachine";
import { HostCard } from "./HostCard";
import { PastUsage } from "./HostUsage";
import { MachineTable } from "./MachineTable";
import { useNames } from "./Resources";
import { Waiting } from "./Waiting";
import "./resources.css";

const texts = strings.resources;

/** The machines of one experiment, what its trials hold of them, and what waits for a place. */
export default function ExperimentResources({ id }: { id: string }) {
  const machines = useQuery(machinesQuery(id));
  const hosts = useQuery(hostsQuery);
  const names = useNames();
  const [adding, setAdding] = useState(false);
  const used = hosts.data?.hosts.filter(({ experiments }) =>
    experiments.some((one) => one.experimentId === id),
  );
  return (
    <div className="stack">
      <section className="card stack machines">
        <div className="spread">
          <h2>{texts.machines}</h2>
          {machines.data?.changeable ? <Button onClick={() => setAdding(true)}>{texts.add}</Button> : null}
        </div>
        {machines.isError ? (
          <Unavailable error={machines.error} onRetry={() => void machines.refetch()} />
        ) : machines.data === undefined ? (
          <p className="soft">{strings.common.loading}</p>
        ) : machines.data.machines.length === 0 ? (
          <p className="soft">{texts.noMachines}</p>
        ) : (
          <MachineTable id={id} {...machines.data} />
        )}
      </section>
      {hosts.isError ? <Failure error={hosts.error} onRetry={() => void hosts.refetch()} /> : null}
      <Waiting waiting={hosts.data?.waiting.filter(({ experimentId }) => experimentId === id) ?? []} />
      {used?.map((host) => (
        <HostCard key={host.address} host={host} nameOf={names} />
      ))}
      {used === undefined ? null : <PastUsage id={id} used={used} />}
      {adding ? <AddMachine id={id} onClose={() => setAdding(false)} /> : null}
    </div>
  );
}

/** A platform without machines, and an experiment that is not open, are no failures: one sentence says so. */
function Unavailable({ error, onRetry }: { error: Error; onRetry: () => void }) {
  if (error instanceof ApiError && error.status === 409)
    return <p className="soft">{`${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`}</p>;
  return <Failure error={error} onRetry={onRetry} />;
}
