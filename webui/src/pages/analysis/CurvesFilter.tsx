import { strings } from "@/strings";
import { Button } from "@/ui/Button";

interface CurvesFilterProps {
  index: string;
  from: string;
  to: string;
  /** `index,from,to`; empty: all curves. */
  onChange: (only: string) => void;
}

/** Only the curves that have a value in a range at one step. */
export function CurvesFilter({ index, from, to, onChange }: CurvesFilterProps) {
  const words = strings.analysis.curves;
  const fields = [
    ["index", words.index, index, "1"],
    ["from", strings.analysis.from, from, "any"],
    ["to", strings.analysis.to, to, "any"],
  ] as const;
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        const texts = fields.map(([name]) => {
          const text = form.get(name);
          return typeof text === "string" ? text : "";
        });
        onChange(texts[0] === "" ? "" : texts.join(","));
      }}
    >
      {fields.map(([name, label, value, step]) => (
        <label key={name} className="row choice">
          <span className="soft">{label}</span>
          <input className="input narrow-number" type="number" name={name} step={step} defaultValue={value} />
        </label>
      ))}
      <Button type="submit">{strings.analysis.apply}</Button>
    </form>
  );
}
