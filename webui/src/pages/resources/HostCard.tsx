import { Link } from "wouter";
import { MIB, type Host, type HostTrial } from "@/data/hosts";
import { strings } from "@/strings";
import { formatBytes, formatNumber } from "@/ui/format";
import { HostUsage } from "./HostUsage";
import { MachineBadge } from "./MachineBadge";

const texts = strings.resources;

interface HostCardProps {
  host: Host;
  nameOf: (experimentId: string) => string;
}

/** A machine: what it has, who uses it and which trial holds what. */
export function HostCard({ host, nameOf }: HostCardProps) {
  const capacity = [
    host.cpus === null ? "" : texts.capacity.cpus(formatNumber(host.cpus)),
    host.memoryMb === null ? "" : texts.capacity.memory(formatBytes(host.memoryMb * MIB)),
    host.diskFreeMb === null ? "" : texts.capacity.disk(formatBytes(host.diskFreeMb * MIB)),
  ].filter(Boolean);
  return (
    <section className="card host" aria-label={host.name}>
      <div className="spread">
        <div className="row">
          <h3>{host.name}</h3>
          {host.address === host.name ? null : <code>{host.address}</code>}
        </div>
        <span className="soft number">{capacity.join(" · ")}</span>
      </div>
      <ul className="host-members">
        {host.experiments.map((member) => (
          <li key={`${member.experimentId} ${member.machine}`}>
            <Link href={`~/experiments/${member.experimentId}`}>{nameOf(member.experimentId)}</Link>{" "}
            <MachineBadge status={member.status} />
            {member.reason === null ? null : <span className="soft"> {member.reason}</span>}
          </li>
        ))}
      </ul>
      {host.gpuTrouble === null ? null : <p className="note warn">{host.gpuTrouble}</p>}
      {host.gpus === null || host.gpus.length === 0 ? null : <Gpus host={host} nameOf={nameOf} />}
      {host.trials.length === 0 ? (
        <p className="soft">{texts.noTrials}</p>
      ) : (
        <Trials trials={host.trials} nameOf={nameOf} />
      )}
      <HostUsage host={host} />
    </section>
  );
}

function Gpus({ host, nameOf }: HostCardProps) {
  return (
    <ul className="gpus">
      {(host.gpus ?? []).map((gpu) => {
        const holders = host.trials.filter((trial) => trial.gpus.includes(gpu.index));
        const others = [
          gpu.otherProcesses.length > 0 ? texts.gpuOthers(gpu.otherProcesses.length) : "",
          gpu.otherMemoryMb > 0 ? texts.gpuMemory(formatBytes(gpu.otherMemoryMb * MIB)) : "",
        ].filter(Boolean);
        return (
          <li key={gpu.index} className={holders.length > 0 ? "gpu held" : "gpu"}>
            <strong>{texts.gpu(gpu.index)}</strong>
            {holders.map((trial) => (
              <TrialLink key={`${trial.experimentId} ${trial.trialId}`} trial={trial} nameOf={nameOf} />
            ))}
            {others.map((sentence) => (
              <span key={sentence} className="soft">
                {sentence}
              </span>
            ))}
            {holders.length === 0 && others.length === 0 ? (
              <span className="soft">{texts.gpuFree}</span>
            ) : null}
          </li>
        );
      })}
    </ul>
  );
}

function TrialLink({ trial, nameOf }: { trial: HostTrial; nameOf: (id: string) => string }) {
  return (
    <Link href={`~/experiments/${trial.experimentId}/trials/${trial.trialId}`}>
      {texts.trial(nameOf(trial.experimentId), trial.sequence, trial.trialId)}
    </Link>
  );
}

function Trials({ trials, nameOf }: { trials: readonly HostTrial[]; nameOf: (id: string) => string }) {
  return (
    <div className="table-scroll">
      <table className="plain">
        <thead>
          <tr>
            <th scope="col">{texts.columns.trial}</th>
            <th scope="col">{texts.columns.attempt}</th>
            <th scope="col">{texts.columns.holds}</th>
          </tr>
        </thead>
        <tbody>
          {trials.map((trial) => (
            <tr key={`${trial.experimentId} ${trial.trialId} ${trial.attempt}`}>
              <td>
                <TrialLink trial={trial} nameOf={nameOf} />
                {trial.sequence === null ? <span className="soft"> {texts.clearing}</span> : null}
              </td>
              <td className="number">{trial.attempt}</td>
              <td className="number">{heldBy(trial)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function heldBy(trial: HostTrial): string {
  const held = [
    trial.gpus.length > 0 ? texts.gpuList(trial.gpus.join(", "), formatNumber(trial.gpuShare ?? 1)) : "",
    trial.cpus > 0 ? texts.capacity.cpus(formatNumber(trial.cpus)) : "",
    trial.memoryMb > 0 ? texts.capacity.memory(formatBytes(trial.memoryMb * MIB)) : "",
  ].filter(Boolean);
  return held.join(", ") || texts.nothingCounted;
}
