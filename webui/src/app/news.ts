/** What became of experiments between two readings of the list, as sentences for notifications. Pure. */
import { nameOf, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";

export interface News {
  readonly id: string;
  readonly title: string;
  readonly text: string;
}

const RUNNING = new Set(["INITIALIZED", "RUNNING", "DRAINING"]);
const texts = strings.news;

/** Experiments that were running and are not, and those that run and have a better result. */
export function newsBetween(before: readonly Summary[], after: readonly Summary[]): News[] {
  const known = new Map(before.map((item) => [item.id, item]));
  return after.flatMap((item) => {
    const old = known.get(item.id);
    if (old === undefined || !RUNNING.has(old.status)) return [];
    const best = item.bestValue === null ? "" : ` ${texts.best(formatNumber(item.bestValue))}`;
    if (!RUNNING.has(item.status))
      return [
        { id: item.id, title: texts.ended(nameOf(item), item.status), text: `${item.reason}${best}`.trim() },
      ];
    if (item.bestValue === null || item.bestValue === old.bestValue) return [];
    return [{ id: item.id, title: nameOf(item), text: texts.better(formatNumber(item.bestValue)) }];
  });
}
