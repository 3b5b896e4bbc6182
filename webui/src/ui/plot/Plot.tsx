import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, type Ref } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { useColours } from "@/ui/chart/colours";
import { contextOf, copyOf } from "./canvas";
import { leftOf, paintWhole, type Paint, type Scales } from "./paint";
import { vectorOf } from "./vector";
import { scaleOf, zoomed, type Axis } from "./scale";
import "./plot.css";

/** What is below the pointer. */
export interface Hit {
  x: number;
  y: number;
  /** Its description, for a tooltip. */
  tip: HTMLElement;
  onPick?: () => void;
  /** Drawn instead of a square around the place. */
  draw?: (context: CanvasRenderingContext2D) => void;
}

export interface Area {
  x: [number, number];
  y: [number, number];
}

export interface PlotPicture {
  picture: () => HTMLCanvasElement | null;
  /** The same as text of SVG; null as long as nothing is drawn. */
  svg: () => Promise<string | null>;
}

interface PlotProps {
  /** Read out in place of the picture. */
  label: string;
  x: Axis;
  y: Axis;
  /** Memoised by the caller: a new one is drawn at once. */
  paint: Paint;
  find?: (at: { x: number; y: number }, scales: Scales) => Hit | null;
  /** Drawn above what is found. */
  highlight?: Paint | undefined;
  onBrush?: (area: Area) => void;
  /** Small, among others: without zoom. */
  compact?: boolean;
  ref?: Ref<PlotPicture>;
}

type View = { x: [number, number] | null; y: [number, number] | null };
const WHOLE: View = { x: null, y: null };

/**
 * A canvas with two axes, for any number of points or lines: dragging brushes, Shift and dragging moves,
 * Ctrl and the wheel (or the keys + and -) zoom, 0 shows all again.
 */
export function Plot({ label, x, y, paint, find, highlight, onBrush, compact = false, ref }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const tipPlace = useRef<HTMLDivElement>(null);
  const scales = useRef<Scales>(null);
  const drag = useRef<{ x: number; y: number; moves: boolean; view: View; id: number } | null>(null);
  const pending = useRef(0);
  const brushed = useRef(false); // the click that follows is no click
  const [view, setView] = useState<View>(WHOLE);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const colours = useColours();

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const context = contextOf(below.current, size);
    if (context === null) return;
    context.font = `12px ${colours.sans}`;
    const top = 8;
    const bottom = size.height - (x.label === "" ? 24 : 44);
    const yScale = scaleOf(y, view.y, bottom, top);
    const left = leftOf(context, yScale, y.label === "");
    const room = { left, top, right: size.width - 14, bottom };
    const made = { x: scaleOf(x, view.x, room.left, room.right), y: yScale, room };
    scales.current = made;
    paintWhole(context, made, colours, paint);
  }, [x, y, view, size, paint, colours]);

  useEffect(() => {
    const context = contextOf(above.current, size);
    if (context !== null && scales.current !== null) highlight?.(context, scales.current);
  }, [highlight, size, view, x, y]);

  const clear = () => {
    const context = contextOf(above.current, size);
    if (context !== null && scales.current !== null) highlight?.(context, scales.current);
    return context;
  };
  const hide = () => {
    if (tipPlace.current !== null) tipPlace.current.hidden = true;
    clear();
  };
  const show = (hit: Hit | null) => {
    const tip = tipPlace.current;
    const context = clear();
    if (tip === null || context === null) return;
    tip.hidden = hit === null;
    if (hit === null) return;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    if (hit.draw === undefined) context.strokeRect(hit.x - 5, hit.y - 5, 10, 10);
    else hit.draw(context);
    tip.replaceChildren(hit.tip);
    tip.style.left = `${hit.x + 14 + tip.offsetWidth > size.width ? Math.max(0, hit.x - 14 - tip.offsetWidth) : hit.x + 14}px`;
    tip.style.top = `${Math.max(0, Math.min(hit.y - 10, size.height - tip.offsetHeight))}px`;
  };
  const pointOf = (event: { clientX: number; clientY: number }) => {
    const box = above.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const zoom = (factor: number, at?: { x: number; y: number }) => {
    const now = scales.current;
    if (now === null) return;
    const { room } = now;
    const centre = at ?? { x: (room.left + room.right) / 2, y: (room.top + room.bottom) / 2 };
    setView({
      x: zoomed(now.x, centre.x, factor, room.left, room.right),
      y: zoomed(now.y, centre.y, factor, room.bottom, room.top),
    });
  };
  const move = (to: { x: number; y: number }) => {
    const [now, from] = [scales.current, drag.current];
    if (now === null || from === null) return;
    if (from.moves) {
      const [wide, high] = [to.x - from.x, to.y - from.y];
      const { room } = now;
      const xs = scaleOf(x, from.view.x, room.left, room.right);
      const ys = scaleOf(y, from.view.y, room.bottom, room.top);
      setView({
        x: [xs.of(room.left - wide), xs.of(room.right - wide)],
        y: [ys.of(room.bottom - high), ys.of(room.top - high)],
      });
      return;
    }
    const context = clear();
    if (context === null) return;
    context.fillStyle = context.strokeStyle = colours.accent;
    context.globalAlpha = 0.15;
    context.fillRect(from.x, from.y, to.x - from.x, to.y - from.y);
    context.globalAlpha = 1;
    context.strokeRect(from.x, from.y, to.x - from.x, to.y - from.y);
  };
  const areaTo = (to: { x: number; y: number }): Area | null => {
    const [now, from] = [scales.current, drag.current];
    if (now === null || from === null || from.moves) return null;
    if (Math.abs(to.x - from.x) < 4 && Math.abs(to.y - from.y) < 4) return null;
    return { x: sorted(now.x.of(from.x), now.x.of(to.x)), y: sorted(now.y.of(from.y), now.y.of(to.y)) };
  };

  useEffect(() => {
    const canvas = above.current;
    if (canvas === null || compact) return;
    const turn = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, pointOf(event));
    };
    canvas.addEventListener("wheel", turn, { passive: false });
    return () => canvas.removeEventListener("wheel", turn);
  });
  useImperativeHandle(
    ref,
    () => ({
      picture: () => copyOf([below.current, above.current], colours.card),
      svg: async () => {
        const made = scales.current;
        if (made === null) return null;
        return vectorOf(size, colours, (context) => {
          paintWhole(context, made, colours, paint);
          highlight?.(context, made);
        });
      },
    }),
    [colours, size, paint, highlight],
  );

  return (
    <div ref={place} className="plot">
      <canvas ref={below} aria-hidden />
      <canvas
        ref={above}
        role="img"
        aria-label={label}
        tabIndex={compact ? undefined : 0}
        onKeyDown={(event) => {
          if (event.key === "+" || event.key === "=") zoom(0.7);
          else if (event.key === "-") zoom(1.4);
          else if (event.key === "0") setView(WHOLE);
        }}
        onPointerDown={(event) => {
          if (event.button !== 0 || (onBrush === undefined && !event.shiftKey)) return;
          drag.current = { ...pointOf(event), moves: event.shiftKey && !compact, view, id: event.pointerId };
          event.currentTarget.setPointerCapture(event.pointerId);
          hide();
        }}
        onPointerMove={(event) => {
          const to = pointOf(event);
          cancelAnimationFrame(pending.current);
          pending.current = requestAnimationFrame(() => {
            if (drag.current !== null) move(to);
            else if (find !== undefined && scales.current !== null) show(find(to, scales.current));
          });
        }}
        onPointerUp={(event) => {
          const area = areaTo(pointOf(event));
          brushed.current = area !== null || drag.current?.moves === true;
          drag.current = null;
          cancelAnimationFrame(pending.current);
          if (area !== null) onBrush?.(area);
          clear();
        }}
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => {
          cancelAnimationFrame(pending.current);
          if (drag.current === null) hide();
        }}
        onClick={(event) => {
          if (scales.current !== null && !brushed.current) find?.(pointOf(event), scales.current)?.onPick?.();
        }}
      />
      <div ref={tipPlace} className="plot-tip" hidden />
      {compact ? null : (
        <div className="plot-zoom">
          <Button
            small
            look="plain"
            aria-label={strings.chart.zoomIn}
            title={strings.chart.zoomIn}
            onClick={() => zoom(0.7)}
          >
            +
          </Button>
          <Button
            small
            look="plain"
            aria-label={strings.chart.zoomOut}
            title={strings.chart.zoomOut}
            onClick={() => zoom(1.4)}
          >
            −
          </Button>
          <Button
            small
            look="plain"
            aria-label={strings.chart.zoomReset}
            title={strings.chart.zoomReset}
            disabled={view === WHOLE}
            onClick={() => setView(WHOLE)}
          >
            ⤢
          </Button>
        </div>
      )}
    </div>
  );
}

const sorted = (a: number, b: number): [number, number] => (a < b ? [a, b] : [b, a]);
