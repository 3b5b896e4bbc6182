import { useSearchParams } from "wouter";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Folded } from "@/ui/Folded";
import { Menu } from "@/ui/Menu";
import { FILTER_NAMES, isFiltered, LISTS, type Filter } from "./filters";

const texts = strings.experiments.filters;
const LABELS = { status: texts.status, platform: texts.platform, owner: texts.owner, tag: texts.tag };

interface FilterBarProps {
  filter: Filter;
  choices: Record<(typeof LISTS)[number], readonly string[]>;
}

/** How many of the fields behind the fold narrow the list down. */
const countSet = (filter: Filter): number =>
  LISTS.filter((name) => filter[name].length > 0).length +
  [filter.archived !== "no", filter.since !== "", filter.until !== ""].filter(Boolean).length;

/** Everything that narrows the list down. */
export function FilterBar({ filter, choices }: FilterBarProps) {
  const [, setSearch] = useSearchParams();
  const change = (name: string, values: readonly string[], replace = false) => {
    setSearch(
      (before) => {
        const after = new URLSearchParams(before);
        after.delete(name);
        for (const value of values) if (value !== "") after.append(name, value);
        return after;
      },
      { replace },
    );
  };
  return (
    <div className="row filters" role="group" aria-label={texts.label}>
      <input
        type="search"
        className="input experiments-search"
        placeholder={strings.experiments.searchHint}
        aria-label={strings.common.search}
        value={filter.search}
        onChange={(event) => change("search", [event.target.value], true)}
      />
      <Folded label={strings.common.filters} count={countSet(filter)}>
        {LISTS.map((name) => {
          const chosen = filter[name];
          const offered = [...new Set([...choices[name], ...chosen])];
          return (
            <Menu
              key={name}
              name={`${LABELS[name]}: ${chosen.join(", ") || texts.any}`}
              label={
                <>
                  <span className="soft">{LABELS[name]}</span>
                  <span className="filter-value" title={chosen.join(", ")}>
                    {chosen.join(", ") || texts.any}
                  </span>
                  <span aria-hidden>▾</span>
                </>
              }
              items={
                offered.length === 0
                  ? [{ label: strings.common.notAvailable, disabled: true, onSelect: () => undefined }]
                  : offered.map((value) => ({
                      label: value,
                      checked: chosen.includes(value),
                      onSelect: () =>
                        change(
                          name,
                          chosen.includes(value)
                            ? chosen.filter((other) => other !== value)
                            : [...chosen, value],
                        ),
                    }))
              }
            />
          );
        })}
        <label className="row">
          <span className="soft">{texts.archived}</span>
          <select
            className="input"
            value={filter.archived}
            onChange={(event) => change("archived", [event.target.value === "no" ? "" : event.target.value])}
          >
            {(["no", "all", "only"] as const).map((value) => (
              <option key={value} value={value}>
                {texts.archivedChoices[value]}
              </option>
            ))}
          </select>
        </label>
        {(["since", "until"] as const).map((name) => (
          <label key={name} className="row">
            <span className="soft">{texts[name]}</span>
            <input
              type="date"
              className="input"
              value={filter[name]}
              onChange={(event) => change(name, [event.target.value])}
            />
          </label>
        ))}
      </Folded>
      {isFiltered(filter) ? <ClearFilters /> : null}
    </div>
  );
}

export function ClearFilters() {
  const [, setSearch] = useSearchParams();
  const clear = () =>
    setSearch((before) => {
      const after = new URLSearchParams(before);
      for (const name of FILTER_NAMES) after.delete(name);
      return after;
    });
  return <Button onClick={clear}>{strings.experiments.clear}</Button>;
}
