import type { RefObject } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import type { LogLines } from "./lines";
import type { Hits } from "./useHits";

interface LogBarProps {
  address: string;
  name: string;
  lines: LogLines;
  search: Hits;
  /** Scrolls to a place among the lines. */
  show: (index: number | null) => void;
  field: RefObject<HTMLInputElement | null>;
  /** null: nothing more comes. */
  following: { follow: boolean; setFollow: (follow: boolean) => void } | null;
  wrap: boolean;
  setWrap: (wrap: boolean) => void;
}

/** What can be done with a log. */
export function LogBar({ address, name, lines, search, show, field, following, wrap, setWrap }: LogBarProps) {
  const { errorAt } = lines;
  const none = search.hits.length === 0;
  return (
    <div className="log-bar">
      <div className="row">
        <input
          ref={field}
          type="search"
          className="input log-search"
          aria-label={strings.log.search}
          placeholder={strings.common.search}
          value={search.query}
          onChange={(event) => search.setQuery(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") show(search.step(event.shiftKey ? -1 : 1));
          }}
        />
        <Button small aria-label={strings.log.previous} disabled={none} onClick={() => show(search.step(-1))}>
          ↑
        </Button>
        <Button small aria-label={strings.log.next} disabled={none} onClick={() => show(search.step(1))}>
          ↓
        </Button>
        <span className="soft number log-hits" aria-live="polite">
          {search.text}
        </span>
      </div>
      <div className="row">
        <Button
          small
          disabled={errorAt === null}
          title={errorAt === null ? strings.log.noError : undefined}
          onClick={() => {
            if (errorAt === null) return;
            search.mark(errorAt);
            show(errorAt - lines.first);
          }}
        >
          {strings.log.firstError}
        </Button>
        {following === null ? null : (
          <Choice label={strings.log.follow} checked={following.follow} onChange={following.setFollow} />
        )}
        <Choice label={strings.log.wrap} checked={wrap} onChange={setWrap} />
        <a className="button small" href={address} download={name}>
          {strings.log.download}
        </a>
      </div>
    </div>
  );
}

function Choice(props: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className="log-choice">
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.onChange(event.target.checked)}
      />
      {props.label}
    </label>
  );
}
