import { useVirtualizer } from "@tanstack/react-virtual";
import {
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type KeyboardEvent,
} from "react";
import { useConnection } from "@/live/useConnection";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { formatNumber } from "@/ui/format";
import { LogBar } from "./LogBar";
import { LogLine } from "./LogLine";
import { MOST_LINES } from "./lines";
import { LogReading } from "./reading";
import { useFollow } from "./useFollow";
import { useHits } from "./useHits";
import "./log.css";

interface LogViewProps {
  /** The log's path in the REST API, with a query where it needs one. */
  address: string;
  /** What the download is called, and the region's name. */
  name: string;
  /** Whether it is still being written: then it is followed. */
  writing: boolean;
  /** A log that is not there yet is looked for again when this changes. */
  changed?: number | string | undefined;
}

const LINE_PX = 18;

/** A log of any length: its last lines, as they are written. */
export function LogView(props: LogViewProps) {
  return <Log key={props.address} {...props} />; // another log is another reading
}

function Log({ address, name, writing, changed }: LogViewProps) {
  const reading = useReading(address, writing, changed);
  const version = useSyncExternalStore(reading.watch, reading.version);
  const { lines, state } = reading;
  const [wrap, setWrap] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const dropped = wrap ? 0 : lines.first * LINE_PX;
  const { box, follow, setFollow, onScroll } = useFollow(writing, version, dropped);
  const rows = useVirtualizer({
    count: lines.count,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    getItemKey: (index) => lines.first + index,
    overscan: 30,
  });
  const search = useHits(lines, version);
  useLayoutEffect(() => rows.measure(), [rows, wrap]);

  const show = (index: number | null) => {
    if (index === null) return;
    setFollow(false);
    rows.scrollToIndex(index, { align: "center" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const find = event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey));
    if (!find || event.target === field.current) return;
    event.preventDefault();
    field.current?.focus();
  };

  if (state.state === "refused")
    return (
      <div className="note spread">
        <span>{state.sentence}</span>
        <Button small onClick={() => reading.again()}>
          {strings.log.again}
        </Button>
      </div>
    );
  const bar = { address, name, lines, search, show, field, wrap, setWrap };
  const following = writing ? { follow, setFollow } : null;
  return (
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions -- a shortcut to the field inside
    <div className="log" onKeyDown={onKeyDown}>
      <LogBar {...bar} following={following} />
      {/* eslint-disable jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reached by keyboard */}
      <div
        ref={box}
        className={wrap ? "log-text wrap" : "log-text"}
        role="region"
        aria-label={strings.log.region(name)}
        tabIndex={0}
        onScroll={onScroll}
      >
        {/* eslint-enable jsx-a11y/no-noninteractive-tabindex */}
        <div
          className="log-rows"
          style={{ height: rows.getTotalSize(), width: wrap ? "100%" : `calc(${lines.longest}ch + 24px)` }}
        >
          {rows.getVirtualItems().map((row) => (
            <div
              key={row.key}
              data-index={row.index}
              ref={wrap ? rows.measureElement : undefined}
              className={lines.first + row.index === search.marked ? "log-row marked" : "log-row"}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <LogLine text={lines.at(row.index)} begun={lines.styleAt(row.index)} query={search.query} />
            </div>
          ))}
        </div>
        {lines.count === 0 && state.state !== "opening" ? (
          <p className="soft">{state.state === "ended" ? strings.log.emptyEnded : strings.log.empty}</p>
        ) : null}
      </div>
      <p className={state.state === "lost" ? "log-state warn" : "log-state soft"} role="status">
        {strings.log.states[state.state]}
        {lines.first + lines.count >= MOST_LINES ? ` ${strings.log.cut(formatNumber(MOST_LINES))}` : null}
      </p>
    </div>
  );
}

function useReading(address: string, writing: boolean, changed: number | string | undefined): LogReading {
  const [reading] = useState(() => new LogReading(address, writing));
  const { state: connection } = useConnection();
  useEffect(() => reading.setWriting(writing), [reading, writing]);
  useEffect(() => {
    reading.start();
    return () => reading.stop();
  }, [reading]);
  useEffect(() => {
    if (reading.state.state === "refused") reading.again();
  }, [reading, changed, connection]);
  return reading;
}
