/** The profile of an experiment, which nearly every page shows a part of. */
import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";
import { isRecord } from "@/ui/trial/space";

export type Profile = Schemas["Experiment"];

export interface Objective {
  name: string;
  mode: "maximize" | "minimize";
  /** The column of the trials that has it. */
  column: string;
}

/**
 * The objectives that the configuration names, the main one first: it is the trials' result. None if a trial has
 * one result without a name.
 */
export function objectivesOf(config: Profile["config"]): Objective[] {
  return Object.entries(isRecord(config.objectives) ? config.objectives : {}).map(([name, mode], index) => ({
    name,
    mode: mode === "minimize" ? "minimize" : "maximize",
    column: index === 0 ? "value" : `metrics.${name}`,
  }));
}

export const profileQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "profile"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}", { params: { path: { id } }, signal })),
  });
