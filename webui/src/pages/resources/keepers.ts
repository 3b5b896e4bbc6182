import type { Schemas } from "@/api/client";
import type { Host } from "@/data/hosts";
import { strings } from "@/strings";

type Keeper = Schemas["Keeper"];

/** The keepers of an experiment on machines that it does not use now. */
export function keepersNotInUse(keepers: readonly Keeper[], used: readonly Host[], id: string): Keeper[] {
  const members = used.flatMap(({ experiments }) => experiments);
  const busy = new Set(members.filter((one) => one.experimentId === id).map(({ machine }) => machine));
  return keepers.filter((keeper) => !busy.has(keeper.id));
}

/** The name of a keeper's machine. */
export function keeperName({ id, host }: Keeper): string {
  return id === "local" ? strings.resources.thisMachine : (host ?? id);
}
