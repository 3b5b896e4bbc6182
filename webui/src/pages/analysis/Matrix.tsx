import { NoChart } from "@/ui/chart/Figure";
import { strings } from "@/strings";
import { ColourScale } from "./ColourScale";
import type { Shared } from "./shared";
import { TrialPlot } from "./TrialPlot";
import { useImportance } from "./useImportance";

const words = strings.analysis.matrix;
const MOST = 4; // parameters: six plots

/** The most important parameters, each pair of them as a small chart. */
export default function Matrix({ shared }: { shared: Shared }) {
  const importance = useImportance(shared);
  const known = shared.described.filter(({ name, count }) => name.startsWith("parameters.") && count > 0);
  const rated = importance.data?.parameters.map(({ name }) => `parameters.${name}`) ?? [];
  const place = (name: string) => (rated.includes(name) ? rated.indexOf(name) : rated.length);
  const first = [...known].sort((a, b) => place(a.name) - place(b.name)).slice(0, MOST);
  if (importance.isPending) return <NoChart title={words.title} sentence={strings.common.loading} />;
  if (first.length < 2) return <NoChart title={words.title} sentence={words.tooFew} />;
  return (
    <section className="stack-small" aria-label={words.title}>
      <div className="spread">
        <p className="soft">
          {(rated.length === 0 ? words.some : words.first)(first.map(({ name }) => shared.label(name)))}
        </p>
        <ColourScale metric={shared.metric} />
      </div>
      <div className="slices">
        {first.flatMap((y, at) =>
          first
            .slice(0, at)
            .map((x) => (
              <TrialPlot
                key={`${x.name} ${y.name}`}
                compact
                byMetric
                shared={shared}
                title={`${shared.label(y.name)} / ${shared.label(x.name)}`}
                summary={words.summary(shared.label(y.name), shared.label(x.name))}
                x={x.name}
                y={y.name}
                log={{ x: x.log, y: y.log }}
                height={200}
              />
            )),
        )}
      </div>
    </section>
  );
}
