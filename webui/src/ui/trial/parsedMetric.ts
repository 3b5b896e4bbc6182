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
