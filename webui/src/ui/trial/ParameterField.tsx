import { useId, useState } from "react";
import { strings } from "@/strings";
import type { Field } from "./drafts";

const text = strings.customTrial;
const OTHER = "other";

interface ParameterFieldProps {
  field: Field;
  value: string;
  fault: string | undefined;
  warning: string | undefined;
  onChange: (value: string) => void;
}

/** One parameter of a customised trial: a number, one of the options (or another value), or any JSON. */
export function ParameterField({ field, value, fault, warning, onChange }: ParameterFieldProps) {
  const id = useId();
  const { spec, name, depth } = field;
  const remark = fault ?? warning;
  const described = {
    id,
    "aria-invalid": fault !== undefined,
    "aria-describedby": remark === undefined ? `${id}-hint` : `${id}-hint ${id}-remark`,
  };
  const options =
    spec?.kind === "choice"
      ? spec.options.map((option) => JSON.stringify(option))
      : spec?.kind === "nested"
        ? spec.options.map((option) => JSON.stringify(option.name))
        : null;
  return (
    <div className="parameter-field">
      <label htmlFor={id} style={{ paddingLeft: `${depth * 20}px` }}>
        {name}
      </label>
      <div className="parameter-input">
        {options === null ? (
          <input
            {...described}
            className="input mono"
            inputMode={spec === null ? undefined : "decimal"}
            autoComplete="off"
            spellCheck={false}
            value={value}
            onChange={(event) => onChange(event.target.value)}
          />
        ) : (
          <Options name={name} options={options} value={value} described={described} onChange={onChange} />
        )}
        {remark === undefined ? null : (
          <p id={`${id}-remark`} className={fault === undefined ? "remark warn" : "remark bad"}>
            {remark}
          </p>
        )}
      </div>
      <span id={`${id}-hint`} className="soft mono">
        {spec?.kind === "number"
          ? text.range(spec.type, spec.written)
          : spec === null
            ? text.anyJson
            : text.choice}
      </span>
    </div>
  );
}

interface OptionsProps {
  name: string;
  options: readonly string[];
  value: string;
  described: { id: string; "aria-invalid": boolean; "aria-describedby": string };
  onChange: (value: string) => void;
}

function Options({ name, options, value, described, onChange }: OptionsProps) {
  const [other, setOther] = useState(!options.includes(value));
  return (
    <>
      <select
        {...described}
        className="input mono"
        value={other ? OTHER : value}
        onChange={(event) => {
          setOther(event.target.value === OTHER);
          if (event.target.value !== OTHER) onChange(event.target.value);
        }}
      >
        {options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
        <option value={OTHER}>{text.otherValue}</option>
      </select>
      {other ? (
        <input
          className="input mono"
          aria-label={text.otherValueOf(name)}
          aria-invalid={described["aria-invalid"]}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : null}
    </>
  );
}
