import { useEffect, useEffectEvent, useRef, type Ref } from "react";
import { useImperativeHandle } from "react";
import { useColours } from "./colours";
import { init, themeOf, type ChartEvent, type ChartOption, type EChart } from "./echarts";

export interface Picture {
  /** The chart as it is now, on the card's colour. */
  picture: () => HTMLCanvasElement | null;
  /** The same as text of SVG; null as long as nothing is drawn. */
  svg: () => Promise<string | null>;
}

interface DrawingProps {
  option: ChartOption;
  label: string;
  onPick?: ((event: ChartEvent) => void) | undefined;
  ref?: Ref<Picture>;
}

/** ECharts in an element that fills its parent: drawn again on a change of the option, the theme or the size. */
export default function Drawing({ option, label, onPick, ref }: DrawingProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<EChart>(null);
  const colours = useColours();
  const pick = useEffectEvent((event: ChartEvent) => onPick?.(event));
  const start = useEffectEvent((element: HTMLElement) => init(element, colours));

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = start(element);
    chart.current = made;
    made.on("click", (event) => pick(event));
    const observer = new ResizeObserver(() => made.resize());
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.dispose();
      chart.current = null;
    };
  }, []);
  useEffect(() => chart.current?.setTheme(themeOf(colours)), [colours]);
  useEffect(() => chart.current?.setOption(option, { notMerge: true }), [option]);
  useImperativeHandle(
    ref,
    () => ({
      picture: () => chart.current?.renderToCanvas({ pixelRatio: 2, backgroundColor: colours.card }) ?? null,
      svg: async () => {
        const made = chart.current;
        if (made === null) return null;
        const { svgOf } = await import("./svg"); // only who saves a picture pays for it
        return svgOf(option, colours, { width: made.getWidth(), height: made.getHeight() });
      },
    }),
    [colours, option],
  );
  return <div ref={place} className="drawing" role="img" aria-label={label} />;
}
