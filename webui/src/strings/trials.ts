const plural = (count: number, one: string, many: string) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const trials = {
  table: "Trials",
  columns: {
    sequence: "Trial No.",
    id: "ID",
    duration: "Duration",
    status: "Status",
    value: "Result",
    latest: "Latest",
    intermediates: "Intermediates",
    created: "Created",
    started: "Start time",
    ended: "End time",
    message: "Message",
    attempt: "Attempts",
    source: "Source",
    retryOf: "Retry of",
    logPath: "Log path",
  },
  latestMark: "latest",
  position: (row: number) => `${row.toLocaleString("en")}.`,
  select: (sequence: number) => `Select trial No. ${sequence}`,
  selectLoaded: "Select all that match",
  expand: (sequence: number) => `Details of trial No. ${sequence}`,
  actions: (sequence: number) => `Actions for trial No. ${sequence}`,
  resize: (column: string) => `Width of ${column}`,
  sortBy: (column: string) => `Sort by ${column}`,
  controls: "Selection and details",
  operation: "Actions",
  keys: "Arrow keys move, Space selects, Enter opens, → shows details.",
  count: (shown: number, all: number | undefined) =>
    all === undefined || all === shown
      ? plural(shown, "trial", "trials")
      : `${shown.toLocaleString("en")} of ${plural(all, "trial", "trials")}`,
  none: "No trial has been created yet. The first ones appear here by themselves.",
  noMatch: "No trial matches.",
  showAll: "Show all trials",
  statuses: "Statuses",
  noResult: "No result",
  noResultHint: "Trials that have succeeded without a usable result; each says why.",
  searchLabel: "Search by id, number or parameter",
  searchHint: "Search id, No., parameter",
  filterLabel: "Filter",
  filterHint: "Filter, such as  Status:[SUCCEEDED]; lr<0.01",
  filterApply: "Apply",
  filterClear: "Clear the filter",
  filterBuild: "Build…",
  filterSuggestions: "Completions",
  filterMatches: (name: string, count: number) =>
    `${name}: ${plural(count, "trial has", "trials have")} a value`,
  builder: {
    title: "Add to the filter",
    column: "Column",
    operator: "Condition",
    value: "Value",
    from: "From",
    to: "To",
    values: "Any of",
    add: "Add to the filter",
    range: (min: string, max: string) => `The values lie between ${min} and ${max}.`,
    result: "This is added:",
    seconds: "Seconds since the experiment was created, or an instant such as 2026-01-31T12:00:00Z.",
    operators: {
      ":": "is",
      "≠": "is not",
      "[]": "lies between",
      "[,]": "is one of",
      ">": "is greater than",
      "<": "is less than",
      ">=": "is at least",
      "<=": "is at most",
      null: "has no value",
      "≠null": "has a value",
    },
  },
  chooser: {
    open: "Columns",
    title: "Columns",
    sets: "Sets",
    setNames: {
      nni: "As NNI",
      parameters: "Parameters",
      metrics: "Metrics",
      times: "Times",
      everything: "Everything",
    },
    groups: { trial: "Trial", parameters: "Parameters", metrics: "Metrics" },
    find: "Find a column",
    shown: "Shown, in this order",
    up: (column: string) => `Move ${column} to the left`,
    down: (column: string) => `Move ${column} to the right`,
    remove: (column: string) => `Hide ${column}`,
    noneFound: "No column has this name.",
    widths: "Reset the widths",
    all: "All",
    leftOut: (count: number) => `${plural(count, "column is", "columns are")} left out: there are too many.`,
  },
  export: "Export",
  exportCsv: "CSV",
  exportJson: "JSON",
  exportMatching: (count: number, format: string) =>
    `${plural(count, "trial", "trials")} that match, as ${format}`,
  selection: {
    bar: "Selection",
    count: (count: number) => `${plural(count, "trial", "trials")} selected`,
    all: (count: number) => `Select all ${count.toLocaleString("en")} that match`,
    clear: "Clear the selection",
    compare: "Compare",
    compareLimit: "Between 2 and 20 trials can be compared.",
    kill: "Stop",
    retry: "Retry",
    tooMany: (most: number) =>
      `At most ${most.toLocaleString("en")} trials can be selected one by one. Select all that match instead.`,
  },
  kill: {
    action: "Stop",
    title: (count: number) =>
      count === 1 ? "Stop this trial?" : `Stop ${count.toLocaleString("en")} trials?`,
    titleCounting: "Stop trials?",
    one: (name: string) => `${name} is stopped and ends as USER_CANCELED.`,
    text: (names: string, ended: number) =>
      `${names} ${names.includes(",") ? "are" : "is"} stopped and ${names.includes(",") ? "end" : "ends"} as USER_CANCELED.` +
      (ended > 0
        ? ` ${plural(ended, "other that is selected has", "others that are selected have")} ended already.`
        : ""),
    nothing: "None of the selected trials is waiting or running, so there is nothing to stop.",
    done: (count: number) => `${plural(count, "trial is", "trials are")} being stopped.`,
  },
  retry: {
    action: "Retry",
    title: (count: number) => `Retry ${plural(count, "trial", "trials")}?`,
    titleCounting: "Retry trials?",
    text: (names: string, other: number) =>
      `The parameters of ${names} are tried again, each as a new trial.` +
      (other > 0
        ? ` ${plural(other, "other that is selected has", "others that are selected have")} not failed.`
        : ""),
    nothing: "None of the selected trials has failed, so there is nothing to retry.",
    done: (count: number, first: number) =>
      count === 1 ? `Trial No. ${first} was added.` : `${count} trials were added, from No. ${first} on.`,
  },
  names: (sequences: readonly number[]) => {
    const shown = sequences.slice(0, 6).map((sequence) => `No. ${sequence}`);
    const more = sequences.length - shown.length;
    return `Trial${sequences.length === 1 ? "" : "s"} ${shown.join(", ")}${more > 0 ? `, and ${more.toLocaleString("en")} more` : ""}`;
  },
  counting: "Counting…",
  row: {
    open: "Open",
    intermediate: "Intermediate results",
    kill: "Stop…",
    retry: "Retry…",
    clone: "Add a trial like this…",
    copyJson: "Copy parameters as JSON",
    copyPython: "Copy parameters as Python",
    copyYaml: "Copy parameters as YAML",
    copyCommandLine: "Copy parameters as command line",
    filterTo: "Only trials with this status",
    copied: "The parameters were copied.",
  },
  detail: {
    parameters: "Parameters",
    sets: (count: number) => `Parameters (the last of ${count} sets)`,
    copyJson: "Copy as JSON",
    now: "What happens",
    noReason: "Nothing to report.",
    intermediates: "Intermediate results",
    noIntermediates: "No intermediate result yet.",
    showCurve: "Show the curve",
    logs: "Logs",
    openLogs: "Open the logs",
    open: "Open the trial",
    final: "Result",
    close: "Hide the details",
    noParameters: "This trial has no parameters yet.",
  },
  curve: {
    title: (sequence: number) => `Intermediate results of trial No. ${sequence}`,
    key: "Metric key",
    step: "Step",
    value: "Value",
    none: "This trial has reported no intermediate result yet. New ones appear here.",
    summary: (count: number, first: string, last: string, least: string, most: string) =>
      `${plural(count, "value", "values")}, from ${first} to ${last}, between ${least} and ${most}.`,
  },
} as const;
