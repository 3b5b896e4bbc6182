import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { ColourBar } from "./ColourBar";
import type { Metric } from "./shared";

/** Which colour means which value of the metric. */
export function ColourScale({ metric }: { metric: Metric }) {
  const { worse, better } = strings.analysis;
  const sign = metric.minimise ? "≥" : "≤";
  return (
    <ColourBar
      low={`${metric.label}: ${worse} ${sign} ${formatNumber(metric.worst)}`}
      high={`${formatNumber(metric.best)} ${better}`}
    />
  );
}
