import { useQueryClient } from "@tanstack/react-query";
import { useId, useState, type ReactNode } from "react";
import { answerOf, api } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { Tabs } from "@/ui/Tabs";
import { say } from "@/ui/toasts";
import { FIRST, FURTHER, machineOf, type Field, type Fields } from "./machine";

const texts = strings.resources;
type Way = "form" | "yaml";

/** Adds machines to an experiment: by a form, or as they stand in a configuration. */
export function AddMachine({ id, onClose }: { id: string; onClose: () => void }) {
  const client = useQueryClient();
  const [way, setWay] = useState<Way>("form");
  const [fields, setFields] = useState<Fields>({});
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [form, panel] = [useId(), useId()];
  const ready = way === "form" ? (fields.host ?? "").trim() !== "" : text.trim() !== "";

  const add = async () => {
    setBusy(true);
    setError(null);
    try {
      const body = { text: way === "form" ? JSON.stringify(machineOf(fields)) : text };
      const params = { path: { id } };
      const { ids } = await answerOf(api.POST("/api/v1/experiments/{id}/machines", { params, body }));
      void client.invalidateQueries({ queryKey: ["live", id] });
      say(texts.added(ids.join(", ")));
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  const footer = (
    <>
      <Button onClick={onClose}>{strings.common.cancel}</Button>
      <Button look="primary" type="submit" form={form} disabled={!ready || busy}>
        {texts.addAction}
      </Button>
    </>
  );
  const tabs = [
    { id: "form", label: texts.form },
    { id: "yaml", label: texts.yaml },
  ] as const;
  return (
    <Dialog title={texts.addTitle} onClose={onClose} footer={footer}>
      <form
        id={form}
        className="stack"
        autoComplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <p className="soft">{texts.addText}</p>
        <Tabs label={texts.forms} tabs={tabs} value={way} onChange={setWay} panel={panel} />
        <div id={panel} role="tabpanel" className="stack">
          {way === "form" ? (
            <MachineForm fields={fields} onChange={setFields} />
          ) : (
            <label className="field">
              {texts.yamlLabel}
              <textarea
                className="input mono"
                rows={10}
                spellCheck={false}
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            </label>
          )}
        </div>
        {error === null ? null : <Failure error={error} />}
      </form>
    </Dialog>
  );
}

interface FormProps {
  fields: Fields;
  onChange: (fields: Fields) => void;
}

function MachineForm({ fields, onChange }: FormProps) {
  const one = (name: Field) => <TextField key={name} name={name} fields={fields} onChange={onChange} />;
  return (
    <>
      <div className="machine-form">{FIRST.map(one)}</div>
      <p className="soft">{texts.secretsHint}</p>
      <details>
        <summary>{texts.more}</summary>
        <div className="machine-form machine-more">
          {FURTHER.map(one)}
          <Labelled label={texts.fields.hostKeyPolicy}>
            {(id) => (
              <select
                id={id}
                className="input"
                value={fields.hostKeyPolicy ?? ""}
                onChange={(event) => onChange({ ...fields, hostKeyPolicy: event.target.value })}
              >
                {(["", "strict", "accept-new"] as const).map((value) => (
                  <option key={value} value={value}>
                    {texts.policies[value]}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
          <label className="row">
            <input
              type="checkbox"
              checked={fields.useActiveGpu === "true"}
              onChange={(event) => onChange({ ...fields, useActiveGpu: event.target.checked ? "true" : "" })}
            />
            {texts.fields.useActiveGpu}
          </label>
        </div>
      </details>
    </>
  );
}

const SECRETS = new Set<Field>(["password", "sshPassphrase"]);
const NUMBERS = new Set<Field>(["port", "maxTrialNumberPerGpu"]);
const HINTS: Partial<Record<Field, string>> = texts.hints;

function TextField({ name, fields, onChange }: FormProps & { name: Field }) {
  return (
    <Labelled label={texts.fields[name]}>
      {(id) => (
        <input
          id={id}
          className="input"
          type={SECRETS.has(name) ? "password" : "text"}
          inputMode={NUMBERS.has(name) ? "numeric" : undefined}
          autoComplete={SECRETS.has(name) ? "new-password" : "off"}
          placeholder={HINTS[name]}
          required={name === "host"}
          value={fields[name] ?? ""}
          onChange={(event) => onChange({ ...fields, [name]: event.target.value })}
        />
      )}
    </Labelled>
  );
}

function Labelled({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}
