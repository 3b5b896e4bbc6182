/** The pages, each loaded when it is first shown. */
import { lazy, type ComponentType } from "react";
import { reloaded } from "./reloaded";

const page = <Props>(load: () => Promise<{ default: ComponentType<Props> }>) =>
  lazy(() => load().catch(reloaded));

export const Experiments = page(() => import("@/pages/experiments/Experiments"));
export const ExperimentCurves = page(() => import("@/pages/experimentCurves/ExperimentCurves"));
export const NewExperiment = page(() => import("@/pages/new/NewExperiment"));
export const Resources = page(() => import("@/pages/resources/Resources"));
export const Overview = page(() => import("@/pages/overview/Overview"));
export const Trials = page(() => import("@/pages/trials/Trials"));
export const Trial = page(() => import("@/pages/trial/Trial"));
export const Analysis = page(() => import("@/pages/analysis/Analysis"));
export const Compare = page(() => import("@/pages/compare/Compare"));
export const ExperimentResources = page(() => import("@/pages/resources/ExperimentResources"));
