/** What the list shows of all experiments, and in which order: all of it said by the address. */
import { nameOf, type Summary } from "@/data/experiments";

export const SORTS = [
  "status",
  "name",
  "best",
  "progress",
  "platform",
  "owner",
  "tags",
  "started",
  "ended",
  "duration",
  "port",
] as const;
export type Sort = (typeof SORTS)[number];

export interface Filter {
  search: string;
  status: readonly string[];
  platform: readonly string[];
  owner: readonly string[];
  tag: readonly string[];
  archived: "no" | "all" | "only";
  since: string; // days in local time, YYYY-MM-DD; empty: any
  until: string;
  sort: Sort;
  descending: boolean;
}

/** The names of the filters in the address, in which several values stand beside each other. */
export const LISTS = ["status", "platform", "owner", "tag"] as const;
export const FILTER_NAMES = ["search", ...LISTS, "archived", "since", "until"] as const;

const FIRST_SORT: Sort = "started";
const DESCENDING_FIRST = new Set<Sort>(["best", "progress", "started", "ended", "duration"]);

export function filterOf(search: URLSearchParams): Filter {
  const sort = SORTS.find((name) => name === search.get("sort")) ?? FIRST_SORT;
  const archived = search.get("archived");
  const order = search.get("order");
  return {
    search: search.get("search") ?? "",
    status: search.getAll("status"),
    platform: search.getAll("platform"),
    owner: search.getAll("owner"),
    tag: search.getAll("tag"),
    archived: archived === "all" || archived === "only" ? archived : "no",
    since: search.get("since") ?? "",
    until: search.get("until") ?? "",
    sort,
    descending: order === null ? DESCENDING_FIRST.has(sort) : order === "desc",
  };
}

/** The address after a click on the header of a column. */
export function sortedBy(search: URLSearchParams, sort: Sort): URLSearchParams {
  const [before, after] = [filterOf(search), new URLSearchParams(search)];
  after.delete("order");
  if (sort === FIRST_SORT) after.delete("sort");
  else after.set("sort", sort);
  if (before.sort === sort && before.descending === DESCENDING_FIRST.has(sort))
    after.set("order", before.descending ? "asc" : "desc");
  return after;
}

export function isFiltered(filter: Filter): boolean {
  return (
    filter.search !== "" ||
    LISTS.some((name) => filter[name].length > 0) ||
    filter.archived !== "no" ||
    filter.since !== "" ||
    filter.until !== ""
  );
}

/** The experiments that the filter lets through, sorted; equal ones as the server has them, newest first. */
export function select(all: readonly Summary[], filter: Filter): Summary[] {
  const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
  const since = filter.since === "" ? -Infinity : new Date(`${filter.since}T00:00:00`).getTime();
  const until = filter.until === "" ? Infinity : new Date(`${filter.until}T23:59:59.999`).getTime();
  const passes = (item: Summary) => {
    if (filter.archived !== "all" && item.archived !== (filter.archived === "only")) return false;
    if (filter.status.length > 0 && !filter.status.includes(item.status)) return false;
    if (filter.platform.length > 0 && !filter.platform.includes(item.platform)) return false;
    if (filter.owner.length > 0 && !filter.owner.includes(item.owner ?? "")) return false;
    if (filter.tag.length > 0 && !filter.tag.some((tag) => item.tags.includes(tag))) return false;
    if (since !== -Infinity && !(timeOf(item.createdAt) >= since)) return false;
    if (until !== Infinity && !(timeOf(item.endedAt) <= until)) return false;
    if (words.length === 0) return true;
    const text = [item.name, item.id, ...item.tags].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const keyed = all.filter(passes).map((item, at) => ({ item, at, key: keyOf(item, filter.sort) }));
  const sign = filter.descending ? -1 : 1;
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) {
      if (a.key !== b.key) return a.key === null ? 1 : -1; // what has none stands last, whatever the order
      return b.at - a.at;
    }
    const order =
      typeof a.key === "string" && typeof b.key === "string"
        ? COLLATOR.compare(a.key, b.key)
        : Number(a.key) - Number(b.key);
    return order === 0 ? b.at - a.at : sign * order;
  });
  return keyed.map(({ item }) => item);
}

const COLLATOR = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function timeOf(instant: string | null): number {
  return instant === null ? NaN : new Date(instant).getTime();
}

function keyOf(item: Summary, sort: Sort): string | number | null {
  switch (sort) {
    case "status":
      return item.status;
    case "name":
      return nameOf(item);
    case "best":
      return item.bestValue;
    case "progress":
      return shareOf(item);
    case "platform":
      return item.platform;
    case "owner":
      return item.owner;
    case "tags":
      return item.tags.length === 0 ? null : item.tags.join(" ");
    case "started":
      return item.createdAt === null ? null : timeOf(item.createdAt);
    case "ended":
      return item.endedAt === null ? null : timeOf(item.endedAt);
    case "duration":
      return item.durationS;
    case "port":
      return item.port;
  }
}

export interface Progress {
  succeeded: number;
  failed: number;
  other: number; // stopped by an assessor or a user
  running: number;
  waiting: number;
  /** Those that count towards maxTrialNumber. */
  ended: number;
}

/** How far its trials are. What a stop of the whole experiment ended does not count: it is run again. */
export function progressOf({ counts }: Pick<Summary, "counts">): Progress {
  const of = (status: string) => counts[status] ?? 0;
  const succeeded = of("SUCCEEDED");
  const failed = of("FAILED");
  const other = of("EARLY_STOPPED") + of("USER_CANCELED");
  return {
    succeeded,
    failed,
    other,
    running: of("RUNNING") + of("UNKNOWN"),
    waiting: of("WAITING"),
    ended: succeeded + failed + other,
  };
}

/** Of the trials it may have, where there is such a number; else how many have ended. */
function shareOf(item: Summary): number {
  const { ended } = progressOf(item);
  return item.maxTrialNumber === null ? ended : ended / item.maxTrialNumber;
}

/** The values that a filter can have, sorted. */
export function choicesOf(all: readonly Summary[]): Record<(typeof LISTS)[number], string[]> {
  const sorted = (values: Iterable<string>) => [...new Set(values)].filter(Boolean).sort(COLLATOR.compare);
  return {
    status: sorted(all.map((item) => item.status)),
    platform: sorted(all.map((item) => item.platform)),
    owner: sorted(all.map((item) => item.owner ?? "")),
    tag: sorted(all.flatMap((item) => item.tags)),
  };
}
