export const customTrial = {
  title: "Add a trial",
  titleOf: (sequence: number) => `Add a trial like No. ${sequence}`,
  explanation: "A trial with these parameters is added to the queue. The tuner gets its result.",
  forkTitle: (sequence: number) => `Fork trial No. ${sequence}`,
  fork: (where: string) =>
    `A new trial with these parameters is added to the queue. It continues from ${where}. This trial does not change.`,
  step: (step: string) => `step ${step}`,
  checkpoint: (attempt: number, number: number) => `checkpoint ${number} of attempt ${attempt}`,
  newest: (where: string) => `the newest checkpoint, which is ${where} at present`,
  raiseLimit: "Raise maxTrialNumber for this trial if it is reached",
  submit: "Add the trial",
  submitAnyway: "Add the trial anyway",
  ended: (status: string) =>
    `The experiment is ${status} and takes no more trials. Resume the experiment first.`,
  added: (sequence: number) => `Trial No. ${sequence} was added.`,
  show: "Show it",
  another: "Add another",
  warned: (count: number) =>
    count === 1
      ? "One value has a warning. You can add the trial anyway."
      : `${count} values have warnings. You can add the trial anyway.`,
  broken: (count: number) =>
    count === 1 ? "One field holds no value yet." : `${count} fields hold no value yet.`,
  noParameters: "The search space is empty, so there is nothing to set.",
  noNumber: "This must be a number.",
  noJson: 'This must be JSON: texts stand in quotes, as in "relu".',
  noInteger: "The search space has integers here.",
  rounded:
    "A browser keeps only 16 digits of a number, so the last ones may differ. With all digits: nnictl trial add.",
  below: (bound: number) => `This is below the search space, which begins at ${bound}.`,
  above: (bound: number) => `This is above the search space, which ends at ${bound}.`,
  offGrid: (q: number) => `The search space has steps of ${q} here.`,
  noOption: "This is not an option of the search space.",
  unknown: "The search space does not have this parameter.",
  otherValue: "Another value…",
  otherValueOf: (name: string) => `Another value of ${name}, as JSON`,
  range: (type: string, written: readonly number[]) => `${type}(${written.join(", ")})`,
  choice: "choice",
  anyJson: "JSON",
} as const;
