import { useRef, type ComponentProps, type ReactNode } from "react";
import { Figure, type ChartTable } from "@/ui/chart/Figure";
import { Plot, type PlotPicture } from "./Plot";

interface PlotFigureProps extends Omit<ComponentProps<typeof Plot>, "label" | "ref"> {
  title: string;
  summary: string;
  table: () => ChartTable;
  tools?: ReactNode;
  fileName?: string;
  height?: 200 | 320 | 460;
}

/** A plot in the frame of a chart. */
export function PlotFigure({
  title,
  summary,
  table,
  tools,
  fileName,
  height = 460,
  ...plot
}: PlotFigureProps) {
  const ref = useRef<PlotPicture>(null);
  return (
    <Figure
      title={title}
      summary={summary}
      table={table}
      tools={tools}
      fileName={fileName}
      picture={() => ref.current?.picture()}
      svg={async () => (await ref.current?.svg()) ?? null}
    >
      <div className={`chart-space high-${height}`}>
        <Plot ref={ref} label={`${title}. ${summary}`} {...plot} />
      </div>
    </Figure>
  );
}
