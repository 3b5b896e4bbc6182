/** What stands in the columns of the list that is more than a text. */
import { useQuery } from "@tanstack/react-query";
import { sentenceOf } from "@/api/client";
import { nameOf, type Summary } from "@/data/experiments";
import { sparklineQuery } from "@/data/history";
import { strings } from "@/strings";
import { formatDuration, formatNumber } from "@/ui/format";
import { Sparkline } from "@/ui/Sparkline";
import { useSecond } from "@/ui/useSecond";
import { progressOf } from "./filters";

const texts = strings.experiments;

/** The best value, and how it came about. `lazy`: only what is there already. */
export function Best({ item, lazy }: { item: Summary; lazy: boolean }) {
  const best = item.bestValue;
  if (best === null) return strings.common.notAvailable;
  const [main, ...others] = Object.keys(item.objectives);
  return (
    <div className="best">
      <div>
        <span className="number">{formatNumber(best)}</span>
        {main === undefined ? null : (
          <div className="soft best-of" title={texts.mainOf(main, others)}>
            {main}
          </div>
        )}
      </div>
      <BestSoFar item={item} best={best} lazy={lazy} />
    </div>
  );
}

function BestSoFar({ item, best, lazy }: { item: Summary; best: number; lazy: boolean }) {
  const history = useQuery({
    ...sparklineQuery(item.id, best),
    enabled: !lazy,
    placeholderData: (before) => before,
  });
  if (history.isError)
    return (
      <span className="soft" title={texts.noBestSoFar(sentenceOf(history.error))}>
        {strings.common.notAvailable}
      </span>
    );
  if (history.data === undefined) return null;
  const { points, lastSequence, results } = history.data;
  return (
    <Sparkline
      points={points.map(({ sequence, value }) => ({ x: sequence, y: value }))}
      until={lastSequence}
      label={texts.bestSoFar(nameOf(item), results)}
    />
  );
}

/** How many of its trials have ended, and how. */
export function Progress({ item }: { item: Summary }) {
  const { succeeded, failed, other, running, waiting, ended } = progressOf(item);
  const max = item.maxTrialNumber;
  const all = Math.max(max ?? ended + running + waiting, ended, 1);
  const label = texts.progressParts(ended, max, running, waiting, failed);
  return (
    <div className="trials-progress" title={label}>
      <span className="number">
        {max !== null && ended > max
          ? texts.progressAbove(formatNumber(ended), formatNumber(max))
          : texts.progress(formatNumber(ended), max === null ? null : formatNumber(max))}
      </span>
      <svg role="img" aria-label={label} preserveAspectRatio="none" viewBox={`0 0 ${all} 1`}>
        <rect className="good" width={succeeded} height="1" />
        <rect className="other" x={succeeded} width={other} height="1" />
        <rect className="bad" x={succeeded + other} width={failed} height="1" />
        <rect className="running" x={ended} width={Math.min(running, all - ended)} height="1" />
      </svg>
    </div>
  );
}

/** How long it has been running; counts on while it does. */
export function Duration({ item, readAt }: { item: Summary; readAt: number }) {
  return item.status === "RUNNING" && item.served ? (
    <Counting item={item} readAt={readAt} />
  ) : (
    formatDuration(item.durationS)
  );
}

function Counting({ item, readAt }: { item: Summary; readAt: number }) {
  const now = useSecond();
  return formatDuration(item.durationS + Math.max(0, now - readAt) / 1000);
}
