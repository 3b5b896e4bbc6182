/**
 * The trials of an experiment as typed arrays, for charts.
 *
 * All charts of an experiment share one store, which holds each column once: it reads a column when it is first
 * wanted, and after that only the rows that have changed. What it shows is never changed in place.
 */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { request } from "@/api/client";
import { missingCode, unpack, type NumberArray, type PackedColumn } from "./packed";

export interface ColumnsHeader {
  revision: number;
  rows: number;
  total: number;
  originAt: string;
}

type Read = (since: number, names: readonly string[]) => Promise<ArrayBuffer>;

/** The columns as they were at one time. Rows are ordered by sequence. */
export class Columns {
  constructor(
    readonly revision: number,
    /** The experiment's creation: what times are seconds after. */
    readonly originAt: Date,
    readonly sequence: Uint32Array,
    readonly all: ReadonlyMap<string, PackedColumn>,
    /** Keeps the store alive as long as someone looks at its columns. */
    readonly store: ColumnStore,
  ) {}

  get rows(): number {
    return this.sequence.length;
  }

  get(name: string): PackedColumn | undefined {
    return name === "sequence" ? { name, values: this.sequence } : this.all.get(name);
  }

  /** The row of a trial, or -1. */
  rowOf(sequence: number): number {
    const row = lowerBound(this.sequence, sequence);
    return this.sequence[row] === sequence ? row : -1;
  }
}

export class ColumnStore {
  #read: Read;
  #columns: Columns;
  #wanted = new Set<string>();
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<Columns> | null = null;

  constructor(read: Read) {
    this.#read = read;
    this.#columns = this.#empty();
  }

  /** These columns and all others that were wanted before, as they are now. Throws ApiError. */
  refresh(names: readonly string[]): Promise<Columns> {
    for (const name of names) this.#wanted.add(name);
    if (this.#next !== null) return this.#next; // those who ask at the same time share the requests
    const bring = () => {
      this.#next = null;
      return this.#bring();
    };
    this.#next = this.#running.then(bring, bring);
    this.#running = this.#next;
    return this.#next;
  }

  #empty(): Columns {
    return new Columns(0, new Date(0), new Uint32Array(0), new Map(), this);
  }

  async #bring(): Promise<Columns> {
    const here = [...this.#columns.all.keys()];
    let absent = [...this.#wanted].filter((name) => !this.#columns.all.has(name));
    if (here.length > 0) {
      const packed = unpack<ColumnsHeader>(await this.#read(this.#columns.revision, here));
      if (packed.header.revision < this.#columns.revision) {
        this.#columns = this.#empty(); // another database stands in its place
        absent = [...this.#wanted];
      } else {
        const { columns, strange } = merge(this.#columns, packed.header, packed.columns);
        this.#columns = columns;
        absent.push(...strange);
      }
    }
    if (absent.length > 0) {
      const packed = unpack<ColumnsHeader>(await this.#read(0, absent));
      this.#columns = add(this.#columns, packed.header, packed.columns);
    }
    return this.#columns;
  }
}

/** The columns with the rows that have changed, and the names of those that are now of another kind: to be read anew. */
function merge(
  old: Columns,
  header: ColumnsHeader,
  changed: ReadonlyMap<string, PackedColumn>,
): { columns: Columns; strange: string[] } {
  const changedSequence = sequenceOf(changed);
  const sequence = united(old.sequence, changedSequence);
  const grown = sequence !== old.sequence;
  const all = new Map<string, PackedColumn>();
  const strange: string[] = [];
  const to = positions(sequence, changedSequence);
  const from = grown ? positions(sequence, old.sequence) : null;
  for (const [name, column] of old.all) {
    const news = changed.get(name);
    if (news === undefined || !extendsCategories(column, news)) {
      strange.push(name);
      continue;
    }
    if (changedSequence.length === 0) {
      all.set(name, column);
      continue;
    }
    const type = wider(column.values, news.values);
    if (type === null) {
      strange.push(name);
      continue;
    }
    const values = from === null ? type(column.values) : spread(type, column, from, sequence.length);
    for (let row = 0; row < to.length; row += 1) values[to[row] ?? 0] = news.values[row] ?? NaN;
    all.set(name, news.categories === undefined ? { name, values } : { ...news, values });
  }
  const columns = new Columns(header.revision, new Date(header.originAt), sequence, all, old.store);
  return { columns, strange };
}

/** The columns and further ones, which were read whole. */
function add(old: Columns, header: ColumnsHeader, read: ReadonlyMap<string, PackedColumn>): Columns {
  const readSequence = sequenceOf(read);
  const first = old.all.size === 0;
  const sequence = first ? readSequence : united(old.sequence, readSequence);
  const all = new Map<string, PackedColumn>();
  const put = (source: ReadonlyMap<string, PackedColumn>, from: Uint32Array) => {
    const places = from.length === sequence.length ? null : positions(sequence, from);
    for (const [name, column] of source) {
      if (name === "sequence") continue;
      const values =
        places === null ? column.values : spread(sameType(column.values), column, places, sequence.length);
      all.set(name, { ...column, values });
    }
  };
  put(old.all, old.sequence);
  put(read, readSequence);
  // What came with the second request may be newer than the rest: the next one starts from the older.
  const revision = first ? header.revision : Math.min(old.revision, header.revision);
  return new Columns(revision, new Date(header.originAt), sequence, all, old.store);
}

function sequenceOf(columns: ReadonlyMap<string, PackedColumn>): Uint32Array {
  const values = columns.get("sequence")?.values;
  if (!(values instanceof Uint32Array)) throw new Error("The server's columns lack the sequence.");
  return values;
}

/** Both sorted lists in one, each number once; the first list itself if it has all. */
function united(first: Uint32Array, second: Uint32Array): Uint32Array {
  const fresh = second.filter((number) => first[lowerBound(first, number)] !== number);
  if (fresh.length === 0) return first;
  const both = new Uint32Array(first.length + fresh.length);
  both.set(first);
  both.set(fresh, first.length);
  return (first.at(-1) ?? -1) < (fresh[0] ?? 0) ? both : both.sort();
}

function positions(sequence: Uint32Array, wanted: Uint32Array): Uint32Array {
  return wanted.map((number) => lowerBound(sequence, number));
}

function lowerBound(sorted: Uint32Array, wanted: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The missing code of a wider type is another one, so that only floats are widened in place. */
function wider(old: NumberArray, news: NumberArray): Make | null {
  if (old.constructor === news.constructor) return sameType(old);
  return isFloat(old) && isFloat(news) ? sameType(new Float64Array(0)) : null;
}

/** An array of so many elements, or of these. */
type Make = (content: number | NumberArray) => NumberArray;

function sameType(values: NumberArray): Make {
  const Type = values.constructor as new (content: number | NumberArray) => NumberArray;
  return (content) => new Type(content);
}

const isFloat = (values: NumberArray) => values instanceof Float32Array || values instanceof Float64Array;

function spread(
  type: Make,
  { values, categories }: PackedColumn,
  to: Uint32Array,
  rows: number,
): NumberArray {
  const spacious = type(rows);
  if (categories !== undefined) spacious.fill(missingCode(spacious));
  else if (isFloat(spacious)) spacious.fill(NaN);
  for (let row = 0; row < to.length; row += 1) spacious[to[row] ?? 0] = values[row] ?? NaN;
  return spacious;
}

/** Codes stay what they are only as long as categories are added at the end. */
function extendsCategories({ categories: old }: PackedColumn, { categories: news }: PackedColumn): boolean {
  if (old === undefined || news === undefined) return old === news;
  if (old === news) return true;
  return JSON.stringify(news.slice(0, old.length)) === JSON.stringify(old);
}

// ---- for pages -------------------------------------------------------------------------------------------

const stores = new Map<string, WeakRef<ColumnStore>>();

function storeOf(id: string): ColumnStore {
  const known = stores.get(id)?.deref();
  if (known !== undefined) return known;
  const store = new ColumnStore(async (since, names) => {
    const search = new URLSearchParams({ since: String(since), names: names.map(quoted).join(",") });
    const answer = await request(`/api/v1/experiments/${encodeURIComponent(id)}/columns?${search}`);
    return answer.arrayBuffer();
  });
  stores.set(id, new WeakRef(store));
  return store;
}

const quoted = (name: string) => (/[",]/.test(name) ? JSON.stringify(name) : name);

export const columnsQuery = (id: string, names: readonly string[]) =>
  queryOptions({
    queryKey: ["live", id, "columns", names.join("\n")],
    queryFn: () => storeOf(id).refresh(names),
    structuralSharing: false, // typed arrays are compared by who they are
    placeholderData: (before: Columns | undefined) => before,
    gcTime: 10_000,
  });

/** The named columns (and maybe more), kept up to date. */
export const useColumns = (id: string, names: readonly string[]) => useQuery(columnsQuery(id, names));
