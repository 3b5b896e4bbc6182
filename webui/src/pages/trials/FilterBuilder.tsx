import { useId, useState, type ReactNode } from "react";
import type { Column } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { formatNumber } from "@/ui/format";
import { filterName, termOf, type Operator } from "./filterText";

const text = strings.trials.builder;
const OF_CATEGORIES: readonly Operator[] = ["[,]", ":", "≠", "null", "≠null"];
const OF_NUMBERS: readonly Operator[] = ["[]", ">", "<", ">=", "<=", ":", "≠", "null", "≠null"];
const OF_IDS: readonly Operator[] = [":", "≠"];

function operatorsOf(column: Column): readonly Operator[] {
  if (column.name === "id") return OF_IDS;
  return column.categories === null ? OF_NUMBERS : OF_CATEGORIES;
}

interface FilterBuilderProps {
  columns: readonly Column[];
  onAdd: (term: string) => void;
  onClose: () => void;
}

/** Picks a column, a condition and values, and gives the term of the filter that says so. */
export function FilterBuilder({ columns, onAdd, onClose }: FilterBuilderProps) {
  const id = useId();
  const [name, setName] = useState("status");
  const column = columns.find((one) => one.name === name) ?? columns[0];
  const [operator, setOperator] = useState<Operator>("[,]");
  const [values, setValues] = useState<readonly string[]>([]);
  if (column === undefined) return null;
  const operators = operatorsOf(column);
  const shown = operators.includes(operator) ? operator : (operators[0] ?? ":");
  const term = termOf(filterName(column, columns), shown, values);
  const footer = (
    <>
      <Button onClick={onClose}>{strings.common.cancel}</Button>
      <Button look="primary" disabled={term === null} onClick={() => term !== null && onAdd(term)}>
        {text.add}
      </Button>
    </>
  );
  return (
    <Dialog title={text.title} onClose={onClose} footer={footer}>
      <div className="stack">
        <div className="builder-line">
          <Field label={text.column} id={`${id}-column`}>
            <select
              id={`${id}-column`}
              className="input"
              value={column.name}
              onChange={(event) => {
                setName(event.target.value);
                setValues([]);
              }}
            >
              {columns.map((one) => (
                <option key={one.name} value={one.name}>
                  {filterName(one, columns)}
                </option>
              ))}
            </select>
          </Field>
          <Field label={text.operator} id={`${id}-operator`}>
            <select
              id={`${id}-operator`}
              className="input"
              value={shown}
              onChange={(event) => {
                setOperator(operators.find((one) => one === event.target.value) ?? shown);
                setValues([]);
              }}
            >
              {operators.map((one) => (
                <option key={one} value={one}>
                  {text.operators[one]}
                </option>
              ))}
            </select>
          </Field>
          <Values id={id} column={column} operator={shown} values={values} onChange={setValues} />
        </div>
        {column.kind === "time" ? <p className="soft">{text.seconds}</p> : null}
        {column.min !== null && column.max !== null && column.categories === null ? (
          <p className="soft">{text.range(formatNumber(column.min), formatNumber(column.max))}</p>
        ) : null}
        <p>
          {text.result} <code>{term ?? strings.common.notAvailable}</code>
        </p>
      </div>
    </Dialog>
  );
}

function Field({ label, id, children }: { label: string; id: string; children: ReactNode }) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children}
    </div>
  );
}

interface ValuesProps {
  id: string;
  column: Column;
  operator: Operator;
  /** JSON texts of categories, else as typed. */
  values: readonly string[];
  onChange: (values: readonly string[]) => void;
}

function Values({ id, column, operator, values, onChange }: ValuesProps) {
  if (operator === "null" || operator === "≠null") return null;
  const categories = column.categories?.map((value) => JSON.stringify(value)) ?? null;
  if (categories !== null && operator === "[,]")
    return (
      <fieldset className="builder-values">
        <legend>{text.values}</legend>
        {categories.map((value) => (
          <label key={value} className="row">
            <input
              type="checkbox"
              checked={values.includes(value)}
              onChange={(event) =>
                onChange(event.target.checked ? [...values, value] : values.filter((one) => one !== value))
              }
            />
            {plain(value)}
          </label>
        ))}
      </fieldset>
    );
  if (categories !== null)
    return (
      <Field label={text.value} id={`${id}-value`}>
        <select
          id={`${id}-value`}
          className="input"
          value={values[0] ?? ""}
          onChange={(event) => onChange([event.target.value])}
        >
          <option value="" />
          {categories.map((value) => (
            <option key={value} value={value}>
              {plain(value)}
            </option>
          ))}
        </select>
      </Field>
    );
  const places = operator === "[]" ? [text.from, text.to] : [text.value];
  return places.map((label, at) => (
    <Field key={label} label={label} id={`${id}-value-${at}`}>
      <input
        id={`${id}-value-${at}`}
        className="input mono"
        size={12}
        autoComplete="off"
        value={values[at] ?? ""}
        onChange={(event) =>
          onChange(places.map((_, place) => (place === at ? event.target.value : (values[place] ?? ""))))
        }
      />
    </Field>
  ));
}

function plain(json: string): string {
  const value: unknown = JSON.parse(json);
  return typeof value === "string" ? value : json;
}
