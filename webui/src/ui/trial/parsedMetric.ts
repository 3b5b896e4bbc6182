import { isRecord } from "./space";

/** A metric as the trial wrote it: JSON, with NaN and Infinity, which become texts. */
export function parsedMetric(written: string | null): unknown {
  if (written === null) return undefined;
  const json = written.replace(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (word) =>
    word.startsWith('"') ? word : `"${word}"`,
  );
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return written;
  }
}

/** The number that a final metric has under a name; undefined if it has none. */
export function metricValueOf(written: string | null, name: string): number | undefined {
  const final = parsedMetric(written);
  const value = isRecord(final) ? final[name] : undefined;
  return typeof value === "number" ? value : undefined;
}
