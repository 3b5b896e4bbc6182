import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { answerOf, api } from "@/api/client";
import { MIB, type Machine } from "@/data/hosts";
import { strings } from "@/strings";
import { Confirm } from "@/ui/Dialog";
import { formatBytes, formatInstant, formatNumber } from "@/ui/format";
import { Menu } from "@/ui/Menu";
import { complain, say } from "@/ui/toasts";
import { MachineBadge } from "./MachineBadge";

const texts = strings.resources;
const { columns } = texts;

type Change = "drain" | "undo" | "remove";

interface MachineTableProps {
  id: string;
  machines: readonly Machine[];
  /** False if the platform makes and ends the machines itself. */
  changeable: boolean;
}

/** The machines of an experiment, and what can be done to each. */
export function MachineTable({ id, machines, changeable }: MachineTableProps) {
  const [asked, setAsked] = useState<{ change: Change; machine: Machine } | null>(null);
  return (
    <div className="table-scroll">
      <table className="plain">
        <thead>
          <tr>
            {(["machine", "status", "trials", "cpus", "memory", "disk", "gpus", "keeper"] as const).map(
              (name) => (
                <th key={name} scope="col">
                  {columns[name]}
                </th>
              ),
            )}
            {changeable ? (
              <th scope="col">
                <span className="visually-hidden">{columns.actions}</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>
          {machines.map((machine) => (
            <Row
              key={machine.id}
              machine={machine}
              onAsk={changeable && !machine.madeOnDemand ? (change) => setAsked({ change, machine }) : null}
            />
          ))}
        </tbody>
      </table>
      {asked === null ? null : <Ask id={id} {...asked} onClose={() => setAsked(null)} />}
    </div>
  );
}

function Row({ machine, onAsk }: { machine: Machine; onAsk: ((change: Change) => void) | null }) {
  const none = strings.common.notAvailable;
  const leaving = machine.status === "draining" || machine.status === "removing";
  return (
    <tr>
      <td>
        <strong>{machine.name}</strong>
        {machine.address === machine.name ? null : <div className="soft">{machine.address}</div>}
      </td>
      <td className="machine-status">
        <MachineBadge status={machine.status} />
        {machine.reason === null ? null : <div className="soft">{machine.reason}</div>}
        {machine.since === null ? null : (
          <div className="soft">{texts.since(formatInstant(machine.since))}</div>
        )}
        {machine.endsAt === null ? null : (
          <div className="soft">{texts.endsAt(formatInstant(machine.endsAt))}</div>
        )}
      </td>
      <td>
        {machine.trialIds.length === 0
          ? none
          : machine.trialIds.map((trial) => (
              <Link key={trial} href={`/trials/${trial}`} className="machine-trial">
                {trial}
              </Link>
            ))}
      </td>
      <td className="number">{formatNumber(machine.cpus)}</td>
      <td className="number">{machine.memoryMb === null ? none : formatBytes(machine.memoryMb * MIB)}</td>
      <td className="number">{machine.diskFreeMb === null ? none : formatBytes(machine.diskFreeMb * MIB)}</td>
      <td className="number">{formatNumber(machine.gpus)}</td>
      <td>{machine.keeperVersion ?? none}</td>
      {onAsk === null ? null : (
        <td>
          <Menu
            small
            label="⋯"
            name={texts.menu(machine.name)}
            items={[
              leaving
                ? { label: texts.undo, onSelect: () => onAsk("undo") }
                : { label: texts.drain, onSelect: () => onAsk("drain") },
              { label: texts.remove, danger: true, onSelect: () => onAsk("remove") },
            ]}
          />
        </td>
      )}
    </tr>
  );
}

interface AskProps {
  id: string;
  change: Change;
  machine: Machine;
  onClose: () => void;
}

function Ask({ id, change, machine, onClose }: AskProps) {
  const client = useQueryClient();
  const [force, setForce] = useState(false);
  const [busy, setBusy] = useState(false);
  const count = machine.trialIds.length;
  const words = {
    drain: {
      title: texts.drainTitle,
      text: texts.drainText(count),
      action: texts.drain,
      done: texts.drained,
    },
    undo: { title: texts.undoTitle, text: texts.undoText, action: texts.undo, done: texts.undone },
    remove: {
      title: texts.removeTitle,
      text: texts.removeText(count),
      action: texts.removeAction,
      done: texts.removed,
    },
  }[change];

  const run = async () => {
    setBusy(true);
    const path = { id, machine: machine.id };
    try {
      if (change === "remove") {
        const params = { path, query: { force } };
        await answerOf(api.DELETE("/api/v1/experiments/{id}/machines/{machine}", { params }));
      } else {
        const body = { undo: change === "undo" };
        await answerOf(
          api.POST("/api/v1/experiments/{id}/machines/{machine}/drain", { params: { path }, body }),
        );
      }
      say(words.done(machine.name));
    } catch (error) {
      complain(error);
    }
    void client.invalidateQueries({ queryKey: ["live", id] });
    onClose();
  };

  return (
    <Confirm
      title={words.title(machine.name)}
      text={
        <div className="stack">
          <p>{words.text}</p>
          {change === "remove" ? (
            <label className="check">
              <input type="checkbox" checked={force} onChange={(event) => setForce(event.target.checked)} />
              {texts.force}
            </label>
          ) : null}
        </div>
      }
      action={words.action}
      danger={change === "remove"}
      busy={busy}
      onConfirm={() => void run()}
      onClose={onClose}
    />
  );
}
