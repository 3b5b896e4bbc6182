import { useMemo } from "react";
import { strings } from "@/strings";
import { NoChart } from "@/ui/chart/Figure";
import { ColourScale } from "./ColourScale";
import { bestRow } from "./metric";
import { textAt, type Shared } from "./shared";
import { TrialPlot } from "./TrialPlot";

/** One small chart for each parameter: its values against the metric. */
export default function Slices({ shared }: { shared: Shared }) {
  const { described, metric, columns, selected } = shared;
  const best = useMemo(() => bestRow(metric, selected), [metric, selected]);
  const parameters = described.filter(({ name }) => name.startsWith("parameters."));
  if (parameters.length === 0)
    return <NoChart title={strings.analysis.slices.region} sentence={strings.analysis.noParameters} />;
  if (metric.count === 0)
    return <NoChart title={strings.analysis.slices.region} sentence={strings.analysis.noResults} />;
  return (
    <>
      <ColourScale metric={metric} />
      <div className="slices">
        {parameters.map(({ name, log, count }) =>
          count === 0 ? (
            <NoChart key={name} title={shared.label(name)} sentence={strings.analysis.slices.none} />
          ) : (
            <TrialPlot
              key={name}
              compact
              byMetric
              shared={shared}
              title={shared.label(name)}
              summary={strings.analysis.slices.summary(
                count,
                best < 0 ? "–" : textAt(columns.get(name), best),
              )}
              x={name}
              y={metric.name}
              log={{ x: log }}
              height={200}
            />
          ),
        )}
      </div>
      <p className="soft hint">{strings.chart.hint}</p>
    </>
  );
}
