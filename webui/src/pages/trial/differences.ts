/** A parameter set beside the best one. */
import { flat } from "@/ui/trial/flat";
import { same } from "@/ui/trial/space";

export interface Difference {
  readonly name: string;
  /** undefined: not in this set. */
  readonly own: unknown;
  /** undefined: not in the best one. */
  readonly best: unknown;
  readonly equal: boolean;
  /** Own less best, of numbers that differ. */
  readonly by: number | null;
}

/** By name, nested ones by dotted names; those that only the best one has come last. */
export function differences(own: unknown, best: unknown): Difference[] {
  const bests = new Map(flat(best));
  const owns = new Map(flat(own));
  const names = [...owns.keys(), ...[...bests.keys()].filter((name) => !owns.has(name))];
  return names.map((name) => {
    const [mine, theirs] = [owns.get(name), bests.get(name)];
    const equal = owns.has(name) && bests.has(name) && same(mine, theirs);
    const by = !equal && typeof mine === "number" && typeof theirs === "number" ? mine - theirs : null;
    return { name, own: mine, best: theirs, equal, by };
  });
}
