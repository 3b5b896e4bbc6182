/** Texts of the dialogs that change a running experiment. */
const results = (count: number) => (count === 1 ? "1 result" : `${count.toLocaleString("en")} results`);

export const change = {
  apply: "Apply",
  applying: "Applying…",
  unchanged: "Nothing was changed yet.",
  editorHint: "YAML or JSON. Ctrl+Enter applies it; Tab indents, Escape leaves the field.",

  space: {
    item: "Edit search space…",
    title: "Edit the search space",
    explanation:
      "Running trials continue. Waiting trials are canceled, and their parameter sets may be suggested again.",
    space: "Search space",
    constraints: "Constraints",
    constraintsHint: 'A list of conditions, such as ["lower < upper"]. An empty text removes them all.',
    done: "The search space was changed.",
  },
  tuner: {
    item: "Replace tuner…",
    title: "Replace the tuner",
    explanation:
      "Trials that run or wait continue. The new tuner gets the whole history. The text is a tuner, or a configuration with the field tuner.",
    tuner: "Tuner",
    done: "The tuner was replaced.",
  },
  results: {
    item: "Import results…",
    title: "Import results",
    explanation: "The tuner learns from results of other experiments. No trial is run for them.",
    file: "From a file",
    text: "Results",
    hint: 'A JSON list such as [{"parameter": {"lr": 0.01}, "value": 0.9}], as nnictl experiment export writes it.',
    action: "Import",
    ready: (count: number) => `${results(count)} can be imported.`,
    done: (given: number, sent: number) => {
      const what = given === sent ? results(sent) : `${given.toLocaleString("en")} of ${results(sent)}`;
      return `${what} ${given === 1 ? "was" : "were"} given to the tuner.`;
    },
    warning: (sentence: string) => `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`,
    deaf: (tuner: string) =>
      `The tuner ${tuner} learns nothing from results: they are kept, but change nothing.`,
    empty: "Choose a file, or paste the results.",
    none: "The list has no results.",
    tooMany: (most: number) => `At most ${most.toLocaleString("en")} results can be imported at once.`,
    notJson: (why: string) => `This is not JSON: ${why}`,
    noList: "This must be a list of objects with “parameter” and “value”.",
    noObject: (at: number) => `Result ${at} is not an object with “parameter” and “value”.`,
    missing: (at: number, key: string) => `Result ${at} has no “${key}”.`,
    noParameters: (at: number) => `The “parameter” of result ${at} is not an object.`,
    unreadable: (name: string) => `${name} could not be read.`,
  },
} as const;
