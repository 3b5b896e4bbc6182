import { useId, useState } from "react";
import { categoryText } from "@/data/packed";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { type Brush, type Described, type Shared } from "./shared";

/** The selection by one column, typed instead of drawn. */
export function RangeDialog({
  shared,
  name,
  onClose,
}: {
  shared: Shared;
  name: string;
  onClose: () => void;
}) {
  const [chosen, setChosen] = useState(name || "value");
  const form = useId();
  const column = shared.described.find((one) => one.name === chosen);
  const before = shared.brushes.get(chosen);
  return (
    <Dialog
      narrow
      title={strings.analysis.rangeTitle}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{strings.common.cancel}</Button>
          <Button look="primary" type="submit" form={form}>
            {strings.analysis.select}
          </Button>
        </>
      }
    >
      <form
        id={form}
        key={chosen}
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (column !== undefined)
            shared.brush({ [chosen]: brushIn(new FormData(event.currentTarget), column) });
          onClose();
        }}
      >
        <label className="field">
          {strings.analysis.column}
          <select className="input" value={chosen} onChange={(event) => setChosen(event.target.value)}>
            {shared.described.map((one) => (
              <option key={one.name} value={one.name}>
                {shared.label(one.name)}
              </option>
            ))}
          </select>
        </label>
        {column === undefined ? null : <Limits column={column} before={before} />}
      </form>
    </Dialog>
  );
}

function Limits({ column, before }: { column: Described; before: Brush | undefined }) {
  if (column.categories !== null) {
    const chosen = before !== undefined && "values" in before ? before.values : column.categories;
    return (
      <fieldset className="field">
        <legend>{strings.analysis.values}</legend>
        {column.categories.map((category, code) => (
          <label key={code} className="row">
            <input type="checkbox" name="code" value={code} defaultChecked={chosen.includes(category)} />
            {categoryText(category)}
          </label>
        ))}
      </fieldset>
    );
  }
  const [low, high] = before !== undefined && "range" in before ? before.range : [column.min, column.max];
  return (
    <div className="row">
      <label className="field">
        {strings.analysis.from}
        <input className="input" name="from" type="number" step="any" required defaultValue={low ?? ""} />
      </label>
      <label className="field">
        {strings.analysis.to}
        <input className="input" name="to" type="number" step="any" required defaultValue={high ?? ""} />
      </label>
    </div>
  );
}

function brushIn(form: FormData, { categories }: Described): Brush {
  if (categories === null) {
    const [from, to] = [Number(form.get("from")), Number(form.get("to"))];
    return { range: from < to ? [from, to] : [to, from] };
  }
  const codes = new Set(form.getAll("code").map(Number));
  return { values: categories.filter((_, code) => codes.has(code)) };
}
