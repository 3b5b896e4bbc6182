import { counted } from "./count";

export const experimentCurves = {
  title: "Compare experiments",
  chart: "Best result so far",
  summary: (shown: number, without: number) =>
    without === 0
      ? `${counted(String(shown), "experiment")}.`
      : `${counted(String(shown), "experiment")}; ${without} without a result yet.`,
  tooFew: "Select two or more experiments in the list to compare them.",
  none: "None of these experiments has a result yet.",
  overTrials: "Trials",
  overTime: "Time",
  seconds: "time since the experiment began",
  table: "Best results",
  experiment: "Experiment",
  best: "Best result",
  trial: "Trial No.",
  after: "After",
  results: "Results",
  compare: "Compare",
} as const;
