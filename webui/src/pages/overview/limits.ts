/** The limits that can be changed while an experiment runs: what is typed, and what is wrong with it. */
import { strings } from "@/strings";
import { formatDuration } from "@/ui/format";

export type LimitName = "maxExperimentDuration" | "maxTrialNumber" | "priority" | "trialConcurrency";

export const UNITS = { min: 60, h: 3600, d: 86_400 } as const;
export type Unit = keyof typeof UNITS;

export type Reading = { value: number } | { fault: string };

const text = strings.overview.edit;

export const isUnit = (unit: string): unit is Unit => unit in UNITS;

/** A positive whole number, other than the present one. */
export function readCount(typed: string, present: number | null): Reading {
  const value = numberIn(typed);
  if (value === null || value <= 0 || !Number.isInteger(value)) return { fault: text.noInteger };
  return value === present ? { fault: text.unchanged } : { value };
}

/** A whole number that may be negative, other than the present one. */
export function readPriority(typed: string, present: number): Reading {
  const value = numberIn(typed);
  if (value === null || !Number.isInteger(value)) return { fault: text.noWhole };
  return value === present ? { fault: text.unchanged } : { value };
}

/** Seconds, not fewer than it has run, and others than now. */
export function readDuration(typed: string, unit: Unit, present: number | null, ranS: number): Reading {
  const number = numberIn(typed);
  if (number === null || number <= 0) return { fault: text.noNumber };
  const value = Math.round(number * UNITS[unit]);
  if (value < ranS || value === 0) return { fault: text.tooShort(formatDuration(ranS)) };
  return value === present ? { fault: text.unchanged } : { value };
}

/** The largest unit in which it is a whole number of at least 1, else minutes. */
export function inUnits(seconds: number): { typed: string; unit: Unit } {
  for (const unit of ["d", "h", "min"] as const)
    if (seconds % UNITS[unit] === 0) return { typed: String(seconds / UNITS[unit]), unit };
  return { typed: String(Number((seconds / UNITS.min).toPrecision(6))), unit: "min" };
}

function numberIn(typed: string): number | null {
  const value = Number(typed);
  return typed.trim() === "" || !Number.isFinite(value) ? null : value;
}
