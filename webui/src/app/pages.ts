/** The pages, each loaded when it is first shown. */
import { lazy } from "react";

export const Experiments = lazy(() => import("@/pages/experiments/Experiments"));
export const NewExperiment = lazy(() => import("@/pages/new/NewExperiment"));
export const Resources = lazy(() => import("@/pages/resources/Resources"));
export const Overview = lazy(() => import("@/pages/overview/Overview"));
export const Trials = lazy(() => import("@/pages/trials/Trials"));
export const Trial = lazy(() => import("@/pages/trial/Trial"));
export const Analysis = lazy(() => import("@/pages/analysis/Analysis"));
export const Compare = lazy(() => import("@/pages/compare/Compare"));
export const ExperimentResources = lazy(() => import("@/pages/resources/ExperimentResources"));
