const plural = (count: number, one: string, many: string) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const annotations = {
  title: "Note and tags",
  edit: "Edit",
  note: "Note",
  noNote: "No note yet.",
  tags: "Tags",
  noTags: "No tags yet.",
  save: "Save",
  addTag: "Add a tag",
  addTagHint: "New tag, then Enter",
  removeTag: (tag: string) => `Remove the tag ${tag}`,
  tooLong: (most: number) => `A tag has at most ${most} characters and no comma.`,
  tooMany: (most: number) => `A trial has at most ${most} tags.`,
  left: (count: number) => `${plural(count, "character", "characters")} left`,

  bulk: {
    open: "Tag",
    title: (count: number) => `Tags of ${plural(count, "trial", "trials")}`,
    add: "Add",
    remove: "Remove",
    removeHint: "These tags are removed from the trials that have them.",
    noneToRemove: "No trial of this experiment has a tag yet.",
    action: "Change the tags",
    done: (count: number) => `The tags of ${plural(count, "trial were", "trials were")} changed.`,
  },
} as const;

export const views = {
  open: "Views",
  saveAs: "Save this view…",
  manage: "Manage views…",
  saveTitle: "Save this view",
  saveText: "Its columns, filter, search and order. Everybody who opens this experiment sees it under Views.",
  name: "Name",
  saved: (name: string) => `The view "${name}" was saved.`,
  manageTitle: "Saved views",
  none: "No view has been saved yet.",
  renameOf: (name: string) => `Name of the view ${name}`,
  rename: "Rename",
  replace: "Replace",
  replaceHint: (name: string) => `Save the present columns, filter and order as ${name}`,
  replaced: (name: string) => `The view "${name}" is now what the table shows.`,
  remove: "Delete",
  removeOf: (name: string) => `Delete the view ${name}`,
  everything: "all trials",
  sorted: (trials: string, column: string, descending: boolean) =>
    `${trials}, by ${column}, ${descending ? "largest" : "smallest"} first`,
} as const;
