import { counted } from "./count";

const some = (count: number) => (count === 1 ? "1 experiment" : `${count} experiments`);

export const experiments = {
  title: "Experiments",
  region: "Experiments, a table that scrolls",
  count: (shown: number, all: number) => (shown === all ? some(all) : `${shown} of ${some(all)}`),
  searchHint: "Name, id or tag",
  none: "There is no experiment yet.",
  firstHow: "Write or paste a configuration here, or start one from a terminal:",
  firstCommand: "nnictl create --config exp.yml",
  noMatch: "No experiment matches these filters.",
  clear: "Clear the filters",
  allArchived: "All experiments are archived.",
  showArchived: "Show them",
  columns: {
    status: "Status",
    name: "Name",
    best: "Best",
    progress: "Progress",
    platform: "Platform",
    owner: "Owner",
    tags: "Tags",
    started: "Started",
    ended: "Ended",
    duration: "Duration",
    port: "Port",
    actions: "Actions",
  },
  selectAll: "Select all that are shown",
  select: (name: string) => `Select ${name}`,
  copyId: "Copy the id",
  filters: {
    label: "Filters",
    status: "Status",
    platform: "Platform",
    owner: "Owner",
    tag: "Tag",
    any: "any",
    archived: "Archived",
    archivedChoices: { no: "hidden", all: "shown too", only: "only" },
    since: "Started since",
    until: "Ended until",
  },
  progress: (ended: string, max: string | null) => (max === null ? ended : `${ended} / ${max}`),
  progressAbove: (ended: string, max: string) => `${ended}, limit ${max}`,
  progressParts: (ended: number, max: number | null, running: number, waiting: number, failed: number) =>
    [
      max === null
        ? `${ended} trials have ended`
        : ended <= max
          ? `${ended} of ${max} trials have ended`
          : `${ended} trials have ended, above the limit of ${max}`,
      running > 0 ? `${running} running` : "",
      waiting > 0 ? `${waiting} waiting` : "",
      failed > 0 ? `${failed} failed` : "",
    ]
      .filter(Boolean)
      .join(", "),
  mainOf: (main: string, others: readonly string[]) =>
    others.length === 0 ? `The best ${main}` : `The best ${main}; the other objectives: ${others.join(", ")}`,
  bestSoFar: (name: string, results: number) =>
    `Best value of ${name} over its ${counted(results, "result")}`,
  noBestSoFar: (sentence: string) => `There is no curve: ${sentence}`,
  otherServer: (port: number) => `On the server at port ${port}`,
  editTags: (name: string) => `Edit the tags of ${name}`,
  tagsOf: (name: string) => `Tags of ${name}, with commas between them`,
  addTags: "+ tag",
  tagsSaved: "The tags are saved.",
  rowMenu: (name: string) => `Actions on ${name}`,
  resume: "Resume",
  why: {
    running: "The experiment is running.",
    ended: "The experiment has ended.",
    stopFirst: "Stop the experiment first.",
  },
  view: "View",
  clone: "Clone",
  resumed: (name: string) => `${name} continues.`,
  selected: (count: number) => `${some(count)} selected`,
  selection: "What to do with the selected experiments",
  unselect: "Clear the selection",
  actions: { stop: "Stop", archive: "Archive", unarchive: "Unarchive", export: "Export", delete: "Delete" },
  asks: {
    stop: "Stop experiments?",
    archive: "Archive experiments?",
    unarchive: "Bring experiments back from the archive?",
    export: "Export the results of experiments?",
    delete: "Delete experiments for good?",
  },
  effects: {
    stop: (count: number, running: number) =>
      `${some(count)} will be stopped${running === 0 ? "" : `, with ${running === 1 ? "a trial that is" : `${running} trials that are`} running`}:`,
    archive: (count: number) =>
      `${some(count)} will be left out of this list unless archived ones are shown:`,
    unarchive: (count: number) => `${some(count)} will be in this list again:`,
    export: (count: number) => `The parameters and final results of ${some(count)} go into one JSON file:`,
    delete: (count: number) =>
      `${some(count)} will be removed, with all trials, metrics, logs and files, here and on their machines:`,
  },
  skipped: {
    stop: (count: number) => `${some(count)} left alone: ended already.`,
    archive: (count: number) => `${some(count)} left alone: archived already.`,
    unarchive: (count: number) => `${some(count)} left alone: not archived.`,
    export: () => "",
    delete: (count: number) => `${some(count)} left alone: stop them first.`,
  },
  nothing: {
    stop: "All of these have ended already.",
    archive: "All of these are archived already.",
    unarchive: "None of these is archived.",
    export: "There is nothing to export.",
    delete: "All of these are running; stop them first.",
  },
  confirm: {
    stop: (count: number) => `Stop ${some(count)}`,
    archive: (count: number) => `Archive ${some(count)}`,
    unarchive: (count: number) => `Unarchive ${some(count)}`,
    export: (count: number) => `Export ${some(count)}`,
    delete: (count: number) => `Delete ${some(count)}`,
  },
  done: {
    stop: (count: number) => `${some(count)} stopped.`,
    archive: (count: number) => `${some(count)} archived.`,
    unarchive: (count: number) => `${some(count)} brought back.`,
    export: (count: number) => `${some(count)} exported.`,
    delete: (count: number) => `${some(count)} deleted.`,
  },
  waysToStop: {
    end: "Stop running trials; resuming an experiment runs their parameters again",
    save: "Let running trials save their state first; resuming an experiment continues them from there",
    detach: "Leave running trials running; resuming an experiment adopts them",
  },
  leaveUnreachable: "Delete even if files must be left on machines that do not answer",
  running: (done: number, all: number) => `${done} of ${all} done…`,
  failed: (count: number) => (count === 1 ? "One failed:" : `${count} failed:`),
  stillRunning: (name: string, count: number) =>
    count === 1 ? `${name}: one trial runs on.` : `${name}: ${count} trials run on.`,
  unsaved: (name: string, count: number) =>
    count === 1
      ? `${name}: one trial had saved nothing and was canceled.`
      : `${name}: ${count} trials had saved nothing and were canceled.`,
  serverLeaves: "The server ends now: that was its last experiment.",
} as const;
