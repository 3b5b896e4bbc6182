import {
  useCallback,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type Ref,
} from "react";
import { strings } from "@/strings";
import { useColours } from "@/ui/chart/colours";
import type { MenuItem } from "@/ui/Menu";
import { contextOf, copyOf } from "@/ui/plot/canvas";
import type { PlotPicture } from "@/ui/plot/Plot";
import { vectorOf } from "@/ui/plot/vector";
import type { Brushes } from "../selection";
import type { Brush, Shared } from "../shared";
import { tipOf } from "../trialMarks";
import { AxisColumn } from "./AxisColumn";
import { canBeLog, placed, type AxisLook, type Space } from "./axes";
import type { Bins } from "./bins";
import { heightsOf, lineAt, MOST_LINES, paintAxes, paintLines } from "./paint";
import { paintRibbons } from "./ribbons";

interface ParallelPlotProps {
  shared: Shared;
  looks: readonly AxisLook[];
  brushes: Brushes;
  selected: Uint32Array;
  /** Of all trials that are shown, and of the selected ones, if they are too many for lines. */
  all: Bins | undefined;
  bins: Bins | undefined;
  ref: Ref<PlotPicture>;
  onLooks: (looks: readonly AxisLook[]) => void;
  onMove: (from: number, to: number) => void;
  onBrush: (name: string, brush: Brush | null, done: boolean) => void;
}

const HEIGHT = 460;

/** The picture, with the axes' handles above it. */
export function ParallelPlot(props: ParallelPlotProps) {
  const { shared, looks, brushes, selected, all, bins, ref, onLooks, onMove, onBrush } = props;
  const { described, metric, label } = shared;
  const place = useRef<HTMLDivElement>(null);
  const behind = useRef<HTMLCanvasElement>(null);
  const front = useRef<HTMLCanvasElement>(null);
  const hover = useRef<HTMLCanvasElement>(null);
  const tipPlace = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [shift, setShift] = useState<{ index: number; pixels: number } | null>(null);
  const colours = useColours();

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(element.clientWidth, looks.length * 72)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [looks.length]);

  const space = useMemo((): Space => ({ width, top: 44, bottom: HEIGHT - 34 }), [width]);
  const axes = useMemo(() => placed(looks, described, space, label), [looks, described, space, label]);
  const size = useMemo(() => ({ width, height: HEIGHT }), [width]);
  const few = selected.length <= MOST_LINES;
  const lines = few ? selected : null; // the ribbons' picture does not depend on it, and is not painted twice
  const heights = useMemo(() => (few ? heightsOf(shared, axes, space) : []), [few, shared, axes, space]);
  const fits = (one: Bins | undefined) =>
    one?.header.axes.length === axes.length &&
    one.header.axes.every(({ name }, index) => name === axes[index]?.name);
  const some = selected.length < shared.shown.length;
  const background = some && fits(all) ? all : undefined;
  const ribbons = !few && fits(bins) ? bins : undefined;

  useLayoutEffect(() => {
    const context = contextOf(behind.current, size);
    if (context !== null && background !== undefined)
      paintRibbons(context, axes, background, space, null, colours);
  }, [background, axes, space, size, colours]);
  const paintFront = useCallback(
    (context: CanvasRenderingContext2D) => {
      if (lines !== null) paintLines(context, axes, heights, lines, metric, colours);
      else if (ribbons !== undefined) paintRibbons(context, axes, ribbons, space, metric, colours);
      paintAxes(context, axes, space, colours);
    },
    [axes, heights, lines, ribbons, metric, space, colours],
  );
  useLayoutEffect(() => {
    const context = contextOf(front.current, size);
    if (context === null) return;
    paintFront(context);
  }, [paintFront, size]);
  useImperativeHandle(ref, () => {
    const paintNames = (context: CanvasRenderingContext2D) => {
      context.fillStyle = colours.ink;
      context.textAlign = "center";
      context.font = `12px ${colours.sans}`;
      for (const { x, label } of axes) context.fillText(label, x, 20);
    };
    return {
      picture: () => {
        const copy = copyOf([behind.current, front.current], colours.card);
        const context = copy?.getContext("2d");
        const density = (copy?.width ?? 0) / (width || 1);
        context?.scale(density, density);
        if (context !== null && context !== undefined) paintNames(context);
        return copy;
      },
      svg: () =>
        vectorOf(size, colours, (context) => {
          if (background !== undefined) paintRibbons(context, axes, background, space, null, colours);
          paintFront(context);
          paintNames(context);
        }),
    };
  }, [axes, width, size, space, background, paintFront, colours]);

  const point = (event: { clientX: number; clientY: number }) => {
    const box = front.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const show = (at: { x: number; y: number } | null) => {
    const [context, tip] = [contextOf(hover.current, size), tipPlace.current];
    const row = at === null || !few ? -1 : lineAt(axes, heights, selected, at);
    if (tip !== null) tip.hidden = row < 0;
    if (context === null || row < 0 || at === null || tip === null) return;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2.5;
    context.beginPath();
    axes.forEach(({ x }, index) => context.lineTo(x, heights[index]?.[row] ?? 0));
    context.stroke();
    tip.replaceChildren(tipOf(shared, row));
    tip.style.left = `${Math.max(0, Math.min(at.x + 14, width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(0, Math.min(at.y + 14, HEIGHT - tip.offsetHeight))}px`;
  };
  const change = (index: number, part: Partial<AxisLook>) =>
    onLooks(looks.map((look, at) => (at === index ? { ...look, ...part } : look)));
  const itemsOf = (index: number): MenuItem[] => {
    const look = looks[index];
    if (look === undefined) return [];
    const words = strings.analysis.parallel;
    const log = canBeLog(described.find(({ name }) => name === look.name));
    return [
      {
        label: words.invert,
        checked: look.inverted,
        onSelect: () => change(index, { inverted: !look.inverted }),
      },
      {
        label: words.log,
        checked: look.log,
        disabled: !log,
        onSelect: () => change(index, { log: !look.log }),
      },
      { label: words.left, disabled: index === 0, onSelect: () => onMove(index, index - 1) },
      { label: words.right, disabled: index === looks.length - 1, onSelect: () => onMove(index, index + 1) },
      {
        label: words.clear,
        disabled: !brushes.has(look.name),
        onSelect: () => onBrush(look.name, null, true),
      },
      {
        label: words.hide,
        disabled: looks.length < 2,
        onSelect: () => onLooks(looks.filter((_, at) => at !== index)),
      },
    ];
  };
  const drag = (index: number, pixels: number, done: boolean) => {
    setShift(done ? null : { index, pixels });
    if (!done) return;
    const step = (axes[1]?.x ?? 0) - (axes[0]?.x ?? 0) || 1;
    const to = Math.max(0, Math.min(looks.length - 1, index + Math.round(pixels / step)));
    if (to !== index) onMove(index, to);
  };

  return (
    <div ref={place} className="parallel">
      <div className="parallel-inside" style={{ width: width || "100%", height: HEIGHT }}>
        <canvas ref={behind} aria-hidden />
        <canvas ref={front} aria-hidden />
        <canvas
          ref={hover}
          aria-hidden
          onPointerMove={(event) => show(point(event))}
          onPointerLeave={() => show(null)}
          onClick={(event) => {
            const row = few ? lineAt(axes, heights, selected, point(event)) : -1;
            if (row >= 0) shared.open(row);
          }}
        />
        {!few && ribbons === undefined ? (
          <p className="soft parallel-wait">{strings.common.loading}</p>
        ) : null}
        {axes.map((axis, index) => (
          <AxisColumn
            key={axis.name}
            axis={shift?.index === index ? { ...axis, x: axis.x + shift.pixels } : axis}
            space={space}
            brush={brushes.get(axis.name)}
            categories={described.find(({ name }) => name === axis.name)?.categories ?? null}
            items={itemsOf(index)}
            onBrush={(brush, done) => onBrush(axis.name, brush, done)}
            onDrag={(pixels, done) => drag(index, pixels, done)}
          />
        ))}
        <div ref={tipPlace} className="plot-tip" hidden />
      </div>
    </div>
  );
}
