export const feed = {
  title: "What has happened, newest first",
  show: "Show",
  choices: {
    trials: "one line per trial",
    all: "everything",
    warnings: "warnings and errors",
    errors: "errors",
  },
  severities: { info: "For information", good: "Good", warning: "Warning", error: "Error" },
  empty: "Nothing of this kind so far.",
  older: "Load older",
  earlier: (count: number) => (count === 1 ? "1 earlier event" : `${count} earlier events`),
} as const;
