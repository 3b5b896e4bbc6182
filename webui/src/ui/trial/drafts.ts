/**
 * What a user has typed for a parameter set, and the parameter set that it gives.
 *
 * A draft is the text of one field; fields of nested choices depend on the branch that is chosen, so that all
 * drafts are kept and the fields derived from them.
 */
import { strings } from "@/strings";
import { isRecord, outsideOf, same, type Space, type Spec } from "./space";

/** By path; of choices the JSON text of the value. */
export type Drafts = Readonly<Record<string, string>>;

export interface Field {
  path: string;
  name: string;
  depth: number;
  /** null: the space does not know the parameter; its value is any JSON. */
  spec: Spec | null;
}

export interface Reading {
  parameters: Record<string, unknown>;
  /** By path: why a text is no value. */
  faults: Readonly<Record<string, string>>;
  /** By path: why a value lies outside of the space. */
  warnings: Readonly<Record<string, string>>;
}

const below = (prefix: string, name: string) => (prefix === "" ? name : `${prefix}/${name}`);

/** The drafts of a parameter set; what it lacks has the first option or the middle of its range. */
export function draftsOf(space: Space, parameters: Readonly<Record<string, unknown>>): Drafts {
  const drafts: Record<string, string> = {};
  const fill = (specs: Space, values: Readonly<Record<string, unknown>>, prefix: string) => {
    for (const [name, spec] of specs) {
      const path = below(prefix, name);
      const value = values[name];
      if (spec.kind !== "nested") {
        drafts[path] = textOf(value === undefined ? middle(spec) : value);
        continue;
      }
      const chosen = isRecord(value) ? value._name : spec.options[0]?.name;
      drafts[path] = textOf(chosen);
      // The chosen branch comes last: another one may have a parameter of the same name, and so the same path.
      const isChosen = (option: (typeof spec.options)[number]) => same(option.name, chosen);
      for (const option of spec.options) if (!isChosen(option)) fill(option.space, {}, path);
      for (const option of spec.options)
        if (isChosen(option)) fill(option.space, isRecord(value) ? value : {}, path);
    }
    for (const [name, value] of Object.entries(values))
      if (name !== "_name" && !specs.some(([known]) => known === name))
        drafts[below(prefix, name)] = textOf(value);
  };
  fill(space, parameters, "");
  return drafts;
}

/** The fields to show, in the order of the space; then those that only the parameter set has. */
export function fieldsOf(
  space: Space,
  parameters: Readonly<Record<string, unknown>>,
  drafts: Drafts,
): readonly Field[] {
  const fields: Field[] = [];
  const list = (specs: Space, values: Readonly<Record<string, unknown>>, prefix: string, depth: number) => {
    for (const [name, spec] of specs) {
      const path = below(prefix, name);
      fields.push({ path, name, depth, spec });
      if (spec.kind !== "nested") continue;
      const branch = spec.options.find((option) => textOf(option.name) === drafts[path]);
      if (branch !== undefined) list(branch.space, {}, path, depth + 1);
    }
    for (const name of Object.keys(values))
      if (name !== "_name" && !specs.some(([known]) => known === name))
        fields.push({ path: below(prefix, name), name, depth, spec: null });
  };
  list(space, parameters, "", 0);
  return fields;
}

export function read(fields: readonly Field[], drafts: Drafts): Reading {
  const faults: Record<string, string> = {};
  const warnings: Record<string, string> = {};
  const parameters: Record<string, unknown> = {};
  const parents = new Map<string, Record<string, unknown>>([["", parameters]]);
  for (const { path, name, spec } of fields) {
    const parent = parents.get(path === name ? "" : path.slice(0, -name.length - 1));
    if (parent === undefined) continue;
    const text = (drafts[path] ?? "").trim();
    const value = valueOf(spec, text);
    if (value === undefined) {
      faults[path] = spec?.kind === "number" ? strings.customTrial.noNumber : strings.customTrial.noJson;
      continue;
    }
    if (spec?.kind === "nested") {
      const inner = { _name: value };
      parent[name] = inner;
      parents.set(path, inner);
    } else parent[name] = value;
    const warning = isRounded(value) ? strings.customTrial.rounded : warningOf(spec, value);
    if (warning !== null) warnings[path] = warning;
  }
  return { parameters, faults, warnings };
}

/** Whether a browser may have dropped digits of the number. From 1e21 on it is written with an exponent, as no integer is. */
const isRounded = (value: unknown) =>
  typeof value === "number" &&
  Number.isInteger(value) &&
  !Number.isSafeInteger(value) &&
  Math.abs(value) < 1e21;

function warningOf(spec: Spec | null, value: unknown): string | null {
  if (spec === null) return strings.customTrial.unknown;
  if (spec.kind === "number") return typeof value === "number" ? outsideOf(spec, value) : null;
  const options = spec.kind === "choice" ? spec.options : spec.options.map((option) => option.name);
  return options.some((option) => same(option, value)) ? null : strings.customTrial.noOption;
}

/** undefined: the text is no value. */
function valueOf(spec: Spec | null, text: string): unknown {
  if (spec?.kind === "number") {
    const value = text === "" ? NaN : Number(text);
    return Number.isFinite(value) ? value : undefined;
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  return value === undefined ? "" : JSON.stringify(value);
}

function middle(spec: Exclude<Spec, { kind: "nested" }>): unknown {
  if (spec.kind === "choice") return spec.options[0];
  const [a = 0, b = 0] = spec.written;
  if (spec.type === "lognormal" || spec.type === "qlognormal") return Number(Math.exp(a).toPrecision(6));
  if (spec.type.endsWith("normal")) return a;
  const half = spec.type.includes("log") ? Math.sqrt(a * b) : (a + b) / 2;
  if (spec.integer) return Math.floor(half);
  return Number((spec.q === null ? half : Math.round(half / spec.q) * spec.q).toPrecision(6));
}
