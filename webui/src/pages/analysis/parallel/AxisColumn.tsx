import { useRef, type KeyboardEvent, type PointerEvent } from "react";
import { categoryText } from "@/data/packed";
import { strings } from "@/strings";
import { Menu, type MenuItem } from "@/ui/Menu";
import { formatNumber } from "@/ui/format";
import type { Brush } from "../shared";
import type { PlacedAxis, Space } from "./axes";

interface AxisColumnProps {
  axis: PlacedAxis;
  space: Space;
  brush: Brush | undefined;
  categories: readonly unknown[] | null;
  items: readonly MenuItem[];
  /** `done`: false as long as the pointer moves. */
  onBrush: (brush: Brush | null, done: boolean) => void;
  /** Dragged by its name, so many pixels. */
  onDrag: (pixels: number, done: boolean) => void;
}

type Range = [number, number];

/** One axis: its name, which moves it; its brush, drawn with the pointer or moved by arrow keys. */
export function AxisColumn({ axis, space, brush, categories, items, onBrush, onDrag }: AxisColumnProps) {
  const grabbed = useRef<{ y: number; range: Range | null; end: 0 | 1 | null } | null>(null);
  const track = useRef<HTMLDivElement>(null);
  const dragged = useRef<number | null>(null);
  const { scale } = axis;
  const whole: Range = categories === null ? [scale.low, scale.high] : [0, categories.length - 1];
  const range = rangeOf(brush, categories);
  const [low, high] = range ?? whole;
  const pad = categories === null ? 0 : 0.45;
  const ends = [scale.at(low - pad), scale.at(high + pad)].map((at) => at - space.top);
  const [top, bottom] = [Math.min(...ends), Math.max(...ends)];

  const say = (wanted: Range, done: boolean) => {
    const sorted: Range = wanted[0] <= wanted[1] ? wanted : [wanted[1], wanted[0]];
    const all = sorted[0] <= whole[0] && sorted[1] >= whole[1];
    if (categories === null) onBrush(all ? null : { range: within(sorted, whole) }, done);
    else
      onBrush(
        all
          ? null
          : { values: categories.filter((_, code) => code >= sorted[0] - 0.5 && code <= sorted[1] + 0.5) },
        done,
      );
  };
  const valueAt = (event: PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    return scale.of(event.clientY - (box?.top ?? 0) + space.top);
  };
  const press = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button !== 0) return;
    const end = event.target instanceof HTMLElement ? event.target.dataset.end : undefined;
    grabbed.current = { y: event.clientY, range, end: end === "0" ? 0 : end === "1" ? 1 : null };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const pull = (event: PointerEvent<HTMLDivElement>, done: boolean) => {
    const from = grabbed.current;
    if (from === null) return;
    if (done) grabbed.current = null;
    if (Math.abs(event.clientY - from.y) < 3) {
      if (done && from.end === null) onBrush(null, true); // a click takes it away
      return;
    }
    const value = valueAt(event);
    if (from.end !== null) {
      say(from.end === 0 ? [value, (from.range ?? whole)[1]] : [(from.range ?? whole)[0], value], done);
      return;
    }
    const box = track.current?.getBoundingClientRect();
    say([scale.of(from.y - (box?.top ?? 0) + space.top), value], done);
  };
  const step = (event: KeyboardEvent, end: 0 | 1) => {
    const direction = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[
      event.key
    ];
    if (event.key === "Escape" || event.key === "Delete") onBrush(null, true);
    if (direction === undefined) return;
    event.preventDefault();
    const height = (space.bottom - space.top) / (categories === null ? 50 : Math.max(categories.length, 1));
    const sign = axis.inverted ? 1 : -1;
    const after: Range = [low, high];
    after[end] = scale.of(scale.at(after[end]) + sign * direction * height);
    if (after[0] <= after[1] + 1e-12) say(after, true);
  };

  return (
    <div className="axis" style={{ left: axis.x }} role="group" aria-label={axis.label}>
      <div
        className="axis-name"
        style={{ width: axis.room, left: -axis.room / 2 }}
        onPointerDown={(event) => {
          if (event.target instanceof Element && event.target.closest("button") !== null) return;
          dragged.current = event.clientX;
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => dragged.current !== null && onDrag(event.clientX - dragged.current, false)}
        onPointerUp={(event) => {
          if (dragged.current !== null) onDrag(event.clientX - dragged.current, true);
          dragged.current = null;
        }}
      >
        <span className="axis-label" title={axis.label}>
          <bdi>{axis.label}</bdi>
        </span>
        <Menu small label="▾" name={strings.analysis.parallel.axisMenu(axis.label)} items={items} />
      </div>
      <div
        ref={track}
        className="axis-track"
        style={{ top: space.top, height: space.bottom - space.top }}
        onPointerDown={press}
        onPointerMove={(event) => pull(event, false)}
        onPointerUp={(event) => pull(event, true)}
        onPointerCancel={() => (grabbed.current = null)}
      >
        {range === null ? null : (
          <div className="axis-brush" style={{ top, height: Math.max(2, bottom - top) }} />
        )}
        {([0, 1] as const).map((end) => {
          const value = end === 0 ? low : high;
          const text =
            categories === null ? formatNumber(value) : categoryText(categories[Math.round(value)]);
          return (
            <div
              key={end}
              className={range === null ? "axis-end idle" : "axis-end"}
              data-end={end}
              style={{ top: ends[end] ?? 0 }}
              role="slider"
              tabIndex={0}
              aria-orientation="vertical"
              aria-label={(end === 0 ? strings.analysis.parallel.lowest : strings.analysis.parallel.highest)(
                axis.label,
              )}
              aria-valuemin={whole[0]}
              aria-valuemax={whole[1]}
              aria-valuenow={value}
              aria-valuetext={text}
              onKeyDown={(event) => step(event, end)}
            />
          );
        })}
      </div>
    </div>
  );
}

function rangeOf(brush: Brush | undefined, categories: readonly unknown[] | null): Range | null {
  if (brush === undefined) return null;
  if ("range" in brush) return [...brush.range];
  const codes = brush.values.map((value) => categories?.indexOf(value) ?? -1).filter((code) => code >= 0);
  return codes.length === 0 ? null : [Math.min(...codes), Math.max(...codes)];
}

const within = ([low, high]: Range, whole: Range): Range => [
  Math.max(low, whole[0]),
  Math.min(high, whole[1]),
];
