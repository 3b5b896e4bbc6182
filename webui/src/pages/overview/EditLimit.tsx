import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState, type SubmitEvent } from "react";
import { answerOf, api, sentenceOf } from "@/api/client";
import { profileQuery } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { say } from "@/ui/toasts";
import { isUnit, UNITS, type LimitName, type Reading, type Unit } from "./limits";

interface EditLimitProps {
  id: string;
  name: LimitName;
  label: string;
  /** The value as it is shown. */
  shown: string;
  /** The value as it is stored; null if it is unlimited. */
  present: number | null;
  /** The value as it is typed. */
  typed: string;
  unit?: Unit;
  read: (typed: string, unit: Unit) => Reading;
  /** It may be unlimited, and is not. */
  liftable?: boolean;
  /** Why it cannot be changed. */
  refused: string | null;
}

const text = strings.overview.edit;

/** A limit, changed where it stands. */
export function EditLimit(props: EditLimitProps) {
  const [editing, setEditing] = useState(false);
  const [edited, setEdited] = useState(false);
  return (
    <div className="limit">
      <dt>{props.label}</dt>
      <dd>
        {editing ? (
          <LimitForm
            {...props}
            onClose={() => {
              setEditing(false);
              setEdited(true);
            }}
          />
        ) : (
          <>
            <span className="number">{props.shown}</span>
            <Button
              small
              look="plain"
              // eslint-disable-next-line jsx-a11y/no-autofocus -- the field that had the focus is gone
              autoFocus={edited}
              disabled={props.refused !== null}
              title={props.refused ?? text.edit(props.label)}
              aria-label={text.edit(props.label)}
              onClick={() => setEditing(true)}
            >
              ✎
            </Button>
          </>
        )}
      </dd>
    </div>
  );
}

function LimitForm({ onClose, ...props }: EditLimitProps & { onClose: () => void }) {
  const [typed, setTyped] = useState(props.typed);
  const [unit, setUnit] = useState<Unit>(props.unit ?? "min");
  const [fault, setFault] = useState<string | null>(null);
  const faultId = useId();
  const client = useQueryClient();
  const change = (value: number | null) =>
    answerOf(
      api.PATCH("/api/v1/experiments/{id}", {
        params: { path: { id: props.id } },
        body: { [props.name]: value },
      }),
    );
  const readAgain = () => void client.invalidateQueries({ queryKey: profileQuery(props.id).queryKey });
  const previous = props.present;
  const saving = useMutation({
    mutationFn: change,
    onSuccess: (profile, value) => {
      client.setQueryData(profileQuery(props.id).queryKey, profile);
      const now =
        value === null
          ? strings.common.unlimited
          : props.unit === undefined
            ? String(value)
            : `${typed} ${strings.overview.units[unit]}`;
      say(text.saved(props.label, now), () => change(previous).finally(readAgain));
      onClose();
    },
    onError: (error) => {
      setFault(sentenceOf(error));
      setTyped(props.typed);
      setUnit(props.unit ?? "min");
    },
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const reading = props.read(typed, unit);
    if ("fault" in reading) setFault(reading.fault);
    else saving.mutate(reading.value);
  };
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- Escape closes it from any field
    <form
      className="limit-form"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <input
        className="input"
        inputMode="decimal"
        // eslint-disable-next-line jsx-a11y/no-autofocus -- the button that had the focus is gone
        autoFocus
        aria-label={props.label}
        aria-invalid={fault !== null}
        aria-describedby={fault === null ? undefined : faultId}
        value={typed}
        onFocus={(event) => event.target.select()}
        onChange={(event) => {
          setTyped(event.target.value);
          setFault(null);
        }}
      />
      {props.unit === undefined ? null : (
        <select
          className="input"
          aria-label={strings.overview.unit}
          value={unit}
          onChange={(event) => {
            if (isUnit(event.target.value)) setUnit(event.target.value);
            setFault(null);
          }}
        >
          {(Object.keys(UNITS) as Unit[]).map((each) => (
            <option key={each} value={each}>
              {strings.overview.units[each]}
            </option>
          ))}
        </select>
      )}
      <Button type="submit" small look="primary" disabled={saving.isPending}>
        {text.save}
      </Button>
      {props.liftable === true ? (
        <Button small disabled={saving.isPending} onClick={() => saving.mutate(null)}>
          {text.lift}
        </Button>
      ) : null}
      <Button small look="plain" onClick={onClose}>
        {strings.common.cancel}
      </Button>
      {fault === null ? null : (
        <span id={faultId} className="field-error" role="alert">
          {fault}
        </span>
      )}
    </form>
  );
}
