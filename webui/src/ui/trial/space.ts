/** Search spaces in NNI's format, as a form needs them: which fields there are, and what lies inside. */
import { strings } from "@/strings";

export interface Choice {
  kind: "choice";
  options: readonly unknown[];
}

export interface Nested {
  kind: "nested";
  options: readonly { name: unknown; space: Space }[];
}

export interface Numeric {
  kind: "number";
  type: string;
  /** Both inclusive; infinite where there is no bound. */
  low: number;
  high: number;
  q: number | null;
  integer: boolean;
  /** The bounds or, of normal ones, mu and sigma, as they are written. */
  written: readonly number[];
}

export type Spec = Choice | Nested | Numeric;
export type Space = readonly (readonly [string, Spec])[];

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The space that a configuration holds; what has another form is left out. */
export function readSpace(value: unknown): Space {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, written]) => {
    const spec = name === "_name" ? null : readSpec(written);
    return spec === null ? [] : [[name, spec] as const];
  });
}

function readSpec(written: unknown): Spec | null {
  if (!isRecord(written) || typeof written._type !== "string" || !Array.isArray(written._value)) return null;
  const values: readonly unknown[] = written._value;
  const { _type: type } = written;
  if (type !== "choice") return readNumeric(type, values);
  const nested = values.filter((option) => isRecord(option)).filter((option) => "_name" in option);
  if (nested.length === 0 || nested.length < values.length) return { kind: "choice", options: values };
  return {
    kind: "nested",
    options: nested.map((option) => ({ name: option._name, space: readSpace(option) })),
  };
}

function readNumeric(type: string, values: readonly unknown[]): Numeric | null {
  const written = values.filter((value) => typeof value === "number");
  const [a, b, q = null] = written;
  if (a === undefined || b === undefined) return null;
  const normal = type.endsWith("normal");
  const integer = type === "randint";
  const low = normal ? (type === "lognormal" ? Number.MIN_VALUE : -Infinity) : a;
  return { kind: "number", type, low, high: normal ? Infinity : integer ? b - 1 : b, q, integer, written };
}

/** What is wrong with a number for this parameter, in one sentence, or null. */
export function outsideOf(spec: Numeric, value: number): string | null {
  const text = strings.customTrial;
  if (spec.integer && !Number.isInteger(value)) return text.noInteger;
  if (value < spec.low) return text.below(spec.low === Number.MIN_VALUE ? 0 : spec.low);
  if (value > spec.high) return text.above(spec.high);
  if (spec.q === null) return null;
  const near = Math.min(Math.max(Math.round(value / spec.q) * spec.q, spec.low), spec.high);
  return Math.abs(near - value) <= 1e-9 * Math.max(Math.abs(value), spec.q) ? null : text.offGrid(spec.q);
}

/** Equal as JSON values. */
export function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
