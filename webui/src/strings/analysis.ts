import { counted } from "./count";

const count = (number: number) => number.toLocaleString("en");

const history = {
  title: "Metric history",
  summary: (results: number, best: string, sequence: number, failed: number) =>
    `${counted(results, "result")}; the best is ${best}, of trial ${sequence}. ${counted(failed, "trial")} ended without one (at the bottom: crosses have failed, were cancelled or have no usable result, circles were stopped early).`,
  notShown: (count: number) =>
    `${counted(count, "result")} of 0 or below cannot be shown on a logarithmic scale.`,
  none: (failed: number) => `No trial has a result yet; ${count(failed)} ended without one.`,
  overTrials: "Trials",
  overTime: "Time",
} as const;

const duration = {
  bars: "Duration of each trial",
  histogram: "Durations",
  scatter: "Duration and metric",
  none: "No trial has ended yet.",
  summary: (ended: number, median: string, longest: string, sequence: number) =>
    `${count(ended)} trials have ended; half of them took up to ${median}, the longest, trial ${sequence}, ${longest}.`,
  against: (metric: string) => `Each trial by its duration and its ${metric}.`,
  trials: "trials",
} as const;

const slices = {
  summary: (trials: number, best: string) => `${count(trials)} trials; the best has ${best}.`,
  none: "No trial has it yet.",
  region: "One chart per parameter",
} as const;

const scatter = {
  title: "Two parameters",
  summary: (x: string, y: string, trials: number, best: string) =>
    `${x} and ${y} of ${count(trials)} trials, coloured by the metric; the best is at ${best}.`,
  heat: "Mean per cell",
  points: "Points",
  rank: "Points by rank",
  contour: "Contours",
  show: "Show",
  x: "Across",
  y: "Up",
} as const;

const pareto = {
  title: "Pareto front",
  table: "The Pareto set",
  summary: (set: number, results: number, objectives: readonly string[]) =>
    `${count(set)} of ${counted(results, "result")} ${set === 1 ? "is" : "are"} not beaten in all objectives by any other: ${objectives.join(", ")}.`,
  none: "No trial has succeeded with all objectives yet.",
  oneObjective: "The experiment has one objective only.",
  x: "Across",
  y: "Up",
  legend:
    "Large squares: the Pareto set (outlines: not selected); the steps: the limit by these two objectives.",
  trial: "Trial",
  shown: (shown: number, total: number) =>
    `${count(shown)} of ${count(total)} trials, the best of the first objective first`,
  more: "Show more",
} as const;

const parallel = {
  title: "Parallel coordinates",
  summary: (selected: number, shown: number, axes: number, ribbons: boolean) =>
    `${count(selected)} of ${count(shown)} trials on ${axes} axes${ribbons ? ", as ribbons: the denser, the more trials" : ""}.`,
  top: "Best",
  percent: (share: number) => (share === 100 ? "all" : `${share} %`),
  custom: "as brushed",
  addAxis: "Add an axis ▾",
  allShown: "All are shown",
  reset: "Reset the axes",
  axisMenu: (axis: string) => `Axis ${axis}`,
  lowest: (axis: string) => `${axis}: from`,
  highest: (axis: string) => `${axis}: to`,
  invert: "Turn round",
  log: "Logarithmic",
  left: "Move left",
  right: "Move right",
  clear: "Remove the selection",
  hide: "Hide the axis",
  hint: "Drag along an axis to select, click it to end that; drag a name to move its axis. Below the axes: trials without a value.",
} as const;

const importance = {
  title: "Importance",
  biased: (tuner: string) =>
    `${tuner} prefers regions with good results. Its trials are no even sample of the search space, so these shares may mislead; trials of Random, or of a grid, are one.`,
  share: "share of the importance",
  error: "error",
  summary: (name: string, share: string, trials: number, best: number, source: string) =>
    `${name} matters most, with ${share}: by how the best ${count(best)} of ${count(trials)} trials differ from all. ${source}.`,
} as const;

const weights: Record<string, string> = { "0": "none", "0.5": "some", "0.8": "more", "0.95": "most" };
const curves = {
  title: "Intermediate results",
  step: "step",
  key: "Key",
  lines: "Lines, up to",
  smooth: "Smoothing",
  weights,
  index: "At step",
  summary: (drawn: number, total: number) =>
    `${count(drawn)} of ${count(total)} curves. Grey: where 8 of 10 of all these are; dashed: their median.`,
  none: "No selected trial has reported an intermediate result yet.",
  noneMatch: "No curve has a value in this range at this step.",
  hint: "Point at a curve to see its trial, click to open it · Ctrl + wheel to zoom · Shift + drag to move",
} as const;

const timeline = {
  title: "Timeline",
  gpu: (index: number) => `GPU ${index}`,
  summary: (lanes: number, span: string) => `${count(lanes)} lanes of hosts and GPUs over ${span}.`,
  none: "Nothing has run yet.",
  all: "Show all the time",
  from: "began after",
  busy: "busy",
  attempt: "attempt",
  several: (trials: number) => `${count(trials)} trials`,
  hint: "Drag to see a part nearer · click a bar to open its trial · paler: less busy",
} as const;

const went = (promoted: number, stopped: number, total: number, lines: number) =>
  `${stopped > 0 ? `, ${counted(stopped, "trial")} stopped` : ""}${promoted > 0 ? `; ${count(promoted)} times one went on` : ""}.${lines < total ? ` ${count(lines)} of them are drawn, those that came far rather than others.` : ""}`;

const rungs = {
  title: "Rungs",
  table: "How many came to each rung",
  none: "No trial has been stopped or promoted at a rung yet.",
  axis: { budget: "Budget", step: "Reports" },
  value: "Value there",
  fate: "What became of it",
  reached: "Came to it",
  cut: { budget: "The worst promoted", step: "The worst that went on" },
  fates: {
    budget: {
      promoted: "Promoted",
      stopped: "Stopped",
      running: "Running",
      left: "Not promoted",
      completed: "Highest budget",
    },
    step: {
      promoted: "Went on",
      stopped: "Stopped",
      running: "Running",
      left: "Ended by itself",
      completed: "Ended by itself",
    },
  },
  summary: {
    budget: (rungs: number, total: number, promoted: number, stopped: number, lines: number) =>
      `${counted(total, "configuration")} at ${counted(rungs, "budget")}${went(promoted, stopped, total, lines)}`,
    step: (rungs: number, total: number, promoted: number, stopped: number, lines: number) =>
      `${counted(total, "trial")} at ${counted(rungs, "rung")}${went(promoted, stopped, total, lines)}`,
  },
  promotedAs: (sequence: number) => `It continues as trial ${sequence}.`,
  beaten: (sequences: readonly number[]) =>
    sequences.length === 0
      ? ""
      : `Beaten by ${sequences.length === 1 ? "trial" : "trials"} ${sequences.join(", ")}.`,
  nobodyWentOn: "Nobody has been promoted from here.",
  worstPromoted: (sequence: number, value: string) =>
    `The worst that was promoted is trial ${sequence}, with ${value}.`,
  hint: "Point at a mark to see why, click to open its trial · Ctrl + wheel to zoom · Shift + drag to move",
} as const;

const times = (number: number) => `${count(number)} ${number === 1 ? "time" : "times"}`;
const lineage = {
  title: "Lineage",
  summary: (trials: number, others: number, own: number, forks: number) =>
    [
      counted(trials, "trial"),
      ...(others === 0 ? [] : [`${times(others)} one continued from a checkpoint of another`]),
      ...(own === 0 ? [] : [`${times(own)} one continued from its own, with other parameters`]),
      ...(forks === 0 ? [] : [counted(forks, "fork")]),
    ].join("; ") + ".",
  none: "No trial has continued from a checkpoint of another trial, or with other parameters.",
  noneSelected: "No selected trial has a part in the lineage.",
  colour: "Colour",
  leg: (sequence: number, leg: number) => `Trial ${sequence}, leg ${leg}`,
  continuesFrom: "Continues from",
  forkedFrom: "Forked from",
  beginning: "the beginning",
  origin: (where: string, sequence: number) => `${where} of trial ${sequence}`,
  step: (step: string) => `step ${step}`,
  checkpoint: (number: number) => `checkpoint ${number}`,
  firstResult: "First result",
  why: "Why",
  arrows: "→ continues from a checkpoint, ⇢ fork",
  manyArrows: "Point at a leg, or zoom in, to see from where it continues.",
} as const;

const stopped = {
  title: "Early stopping",
  list: "Stopped trials",
  none: (assessor: string | null) =>
    assessor === null
      ? "No trial was stopped."
      : `No trial was stopped yet, neither by the assessor ${assessor} nor otherwise.`,
  summary: (
    all: number,
    assessor: number,
    name: string | null,
    scheduler: number,
    duration: number,
    user: number,
    system: number,
  ) =>
    `${count(all)} trials were stopped: ${count(assessor)} by the assessor${name === null ? "" : ` ${name}`}, ${count(scheduler)} by the scheduler, ${count(duration)} by maxTrialDuration, ${count(user)} by a user, ${count(system)} by the system.`,
  by: "By",
  anyone: "anyone",
  names: {
    assessor: "assessor",
    scheduler: "scheduler",
    duration: "maxTrialDuration",
    user: "user",
    system: "system",
  },
  trial: "Trial",
  step: "Step",
  value: "Value there",
  reason: "Why",
  reached: "reached it",
  stoppedHere: "stopped there",
  page: (from: number, to: number, total: number) =>
    `${count(from)} to ${count(to)} of ${count(total)}, newest first`,
  newer: "Newer",
  older: "Older",
} as const;

export const analysis = {
  grid: {
    label: "Several charts",
    choose: "Charts",
    open: (name: string) => `Show only: ${name}`,
    all: "All charts",
  },
  edf: {
    title: "Share of results",
    summary: (results: number, median: string, best: string) =>
      `${counted(results, "result")}: half of them are ${median} or better; the best is ${best}.`,
    share: "share of the results that are as good or better",
    none: "No trial has a result yet.",
    trials: "trials",
  },
  matrix: {
    title: "Scatter matrix",
    summary: (y: string, x: string) => `${y} over ${x}, coloured by the result.`,
    first: (names: readonly string[]) => `The most important parameters: ${names.join(", ")}.`,
    some: (names: readonly string[]) => `The first parameters: ${names.join(", ")}.`,
    tooFew: "It takes two parameters to compare.",
  },
  tabs: {
    grid: "Grid",
    history: "History",
    pareto: "Pareto front",
    parallel: "Parallel coordinates",
    curves: "Intermediate results",
    duration: "Duration",
    importance: "Importance",
    edf: "Share of results",
    slices: "Slices",
    scatter: "Two parameters",
    matrix: "Scatter matrix",
    timeline: "Timeline",
    rungs: "Rungs",
    stopped: "Early stopping",
    lineage: "Lineage",
  },
  charts: "Charts",
  metric: "Metric",
  defaultMetric: "result",
  objective: (name: string, minimise: boolean) => `${name} (${minimise ? "lowest" : "highest"})`,
  direction: "Best is",
  maximise: "highest",
  minimise: "lowest",
  filter: "Filter",
  filterHint: "For example: status:SUCCEEDED;lr<0.1",
  apply: "Apply",
  noTrials: "There are no trials yet: charts appear with the first ones.",
  noneMatch: "No trial matches the filter.",
  noResults: "No trial has a result yet.",
  noParameters: "The trials have no parameters.",
  selected: (selected: number, shown: number) => `${count(selected)} of ${count(shown)} trials selected`,
  nothingSelected: (shown: number, total: number) =>
    shown === total
      ? `${count(total)} trials. Brush any chart to select some of them in all charts.`
      : `${count(shown)} of ${count(total)} trials match. Brush any chart to select some of them in all charts.`,
  clear: "Clear",
  remove: (name: string) => `Remove the selection by ${name}`,
  openInTrials: "Open in the table",
  compare: "Compare",
  compareLimit: "Up to 20 trials can be compared.",
  addRange: "Select by…",
  rangeTitle: "Select trials",
  column: "Column",
  from: "From",
  to: "To",
  values: "Values",
  select: "Select",
  trial: (sequence: number) => `Trial ${sequence}`,
  sequence: "trial number",
  sinceStart: "time since the start",
  time: "Time",
  xAxis: "Over",
  scale: "Scale",
  linear: "linear",
  log: "log",
  status: "Status",
  best: "best so far",
  ended: "Ended after",
  durationName: "Duration",
  worse: "worse",
  better: "better",
  noValue: "none",
  history,
  pareto,
  timeline,
  rungs,
  lineage,
  stopped,
  importance,
  curves,
  parallel,
  duration,
  slices,
  scatter,
} as const;
