import { Suspense, lazy, useRef, type ReactNode } from "react";
import { strings } from "@/strings";
import type { Picture } from "./Drawing";
import { Figure, type ChartTable } from "./Figure";
import type { ChartEvent, ChartOption } from "./echarts";

const Drawing = lazy(() => import("./Drawing"));

interface ChartProps {
  title: string;
  /** What the picture says, in a sentence. */
  summary: string;
  /** Memoised by the caller: a new one is drawn anew. */
  option: ChartOption;
  table: () => ChartTable;
  fileName?: string;
  tools?: ReactNode;
  /** In pixels. */
  height?: 120 | 200 | 320 | 460;
  onPick?: (event: ChartEvent) => void;
}

/** A chart of up to a few thousand marks by ECharts, which is loaded with the first one. */
export function Chart({ title, summary, option, table, fileName, tools, height = 320, onPick }: ChartProps) {
  const drawing = useRef<Picture>(null);
  return (
    <Figure
      title={title}
      summary={summary}
      table={table}
      fileName={fileName}
      tools={tools}
      picture={() => drawing.current?.picture()}
      svg={async () => (await drawing.current?.svg()) ?? null}
    >
      <div className={`chart-space high-${height}`}>
        <Suspense fallback={<p className="soft chart-none">{strings.common.loading}</p>}>
          <Drawing ref={drawing} option={option} label={`${title}. ${summary}`} onPick={onPick} />
        </Suspense>
      </div>
    </Figure>
  );
}
