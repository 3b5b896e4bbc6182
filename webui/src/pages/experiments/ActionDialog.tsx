import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { sentenceOf } from "@/api/client";
import { nameOf, WAYS_TO_STOP, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { StatusBadge } from "@/ui/StatusBadge";
import { complain, say } from "@/ui/toasts";
import { applies, perform, type ActionName, type Options, type Outcome } from "./actions";
import { progressOf } from "./filters";

const texts = strings.experiments;

interface ActionDialogProps {
  action: ActionName;
  items: readonly Summary[];
  onClose: () => void;
  /** What has been done, so that it can leave the selection. */
  onDone: (items: readonly Summary[]) => void;
}

/** The action that takes another one back. */
const WAYS_BACK: Partial<Record<ActionName, ActionName>> = { archive: "unarchive", unarchive: "archive" };

/** Names what an action hits, asks, and tells of each that failed. */
export function ActionDialog({ action, items, onClose, onDone }: ActionDialogProps) {
  const client = useQueryClient();
  const [targets] = useState(() => items.filter((item) => applies(action, item)));
  const [options, setOptions] = useState<Options>({ way: "end", leaveUnreachable: false });
  const [done, setDone] = useState<number | null>(null);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const skipped = items.length - targets.length;

  const run = async () => {
    setDone(0);
    const result = await perform(action, targets, options, setDone);
    void client.invalidateQueries({ queryKey: ["list"] });
    for (const item of result.done) void client.invalidateQueries({ queryKey: ["live", item.id] });
    for (const note of result.notes) complain(note);
    if (result.done.length > 0) {
      const undo = WAYS_BACK[action];
      const back = async () => {
        if (undo !== undefined) await perform(undo, result.done, options, () => undefined);
        await client.invalidateQueries({ queryKey: ["list"] });
      };
      say(texts.done[action](result.done.length), undo === undefined ? null : back);
      onDone(result.done);
    }
    if (result.failed.length === 0) onClose();
    else setOutcome(result);
  };

  if (targets.length === 0)
    return (
      <Dialog title={texts.asks[action]} onClose={onClose} narrow>
        <p>{texts.nothing[action]}</p>
      </Dialog>
    );
  const running = targets.reduce((sum, item) => sum + progressOf(item).running, 0);
  const danger = action === "stop" || action === "delete";
  const footer =
    outcome === null ? (
      <>
        <Button onClick={onClose}>{strings.common.cancel}</Button>
        <Button look={danger ? "danger" : "primary"} disabled={done !== null} onClick={() => void run()}>
          {done === null ? texts.confirm[action](targets.length) : texts.running(done, targets.length)}
        </Button>
      </>
    ) : (
      <Button onClick={onClose}>{strings.common.close}</Button>
    );
  return (
    <Dialog title={texts.asks[action]} onClose={onClose} footer={footer} narrow>
      {outcome === null ? (
        <div className="stack">
          <p>{texts.effects[action](targets.length, running)}</p>
          <Named items={targets} />
          {skipped > 0 ? <p className="soft">{texts.skipped[action](skipped)}</p> : null}
          <OptionFields action={action} options={options} onChange={setOptions} />
        </div>
      ) : (
        <Failures outcome={outcome} />
      )}
    </Dialog>
  );
}

function Named({ items }: { items: readonly Summary[] }) {
  return (
    <ul className="named">
      {items.map((item) => (
        <li key={item.id}>
          <span title={nameOf(item)}>{nameOf(item)}</span> <code>{item.id}</code>{" "}
          <StatusBadge status={item.status} />
        </li>
      ))}
    </ul>
  );
}

function OptionFields({
  action,
  options,
  onChange,
}: {
  action: ActionName;
  options: Options;
  onChange: (options: Options) => void;
}) {
  if (action === "stop")
    return (
      <div className="stack-small">
        {WAYS_TO_STOP.map((way) => (
          <label key={way} className="choice">
            <input
              type="radio"
              name="way"
              checked={options.way === way}
              onChange={() => onChange({ ...options, way })}
            />
            {texts.waysToStop[way]}
          </label>
        ))}
      </div>
    );
  if (action === "delete")
    return (
      <label className="check">
        <input
          type="checkbox"
          checked={options.leaveUnreachable}
          onChange={(event) => onChange({ ...options, leaveUnreachable: event.target.checked })}
        />
        {texts.leaveUnreachable}
      </label>
    );
  return null;
}

function Failures({ outcome }: { outcome: Outcome }) {
  return (
    <div className="stack" role="alert">
      <p>{texts.failed(outcome.failed.length)}</p>
      <ul className="named">
        {outcome.failed.map(({ item, error }) => (
          <li key={item.id}>
            <span>{nameOf(item)}</span> <code>{item.id}</code>: {sentenceOf(error)}
          </li>
        ))}
      </ul>
    </div>
  );
}
