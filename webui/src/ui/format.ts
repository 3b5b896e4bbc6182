/** Numbers, durations and instants as people read them. */

/** Up to six significant digits. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(4).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(6)));
}

/** `90061` → `1 d 1 h`, `75` → `1 min 15 s`, `0.25` → `0.25 s`. Two units at most. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 10) return `${Number(seconds.toPrecision(2))} s`;
  let left = Math.round(seconds);
  const parts: string[] = [];
  for (const [unit, size] of [
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ] as const) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count} ${unit}`);
    left -= count * size;
  }
  return parts.slice(0, 2).join(" ");
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Today: the time; else day and time. */
export function formatInstant(instant: string | Date | null | undefined): string {
  if (instant === null || instant === undefined) return "–";
  const date = new Date(instant);
  return date.toDateString() === new Date().toDateString() ? CLOCK.format(date) : DAY.format(date);
}

/** Bytes as `1.4 MiB`. */
export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : Number(size.toPrecision(3))} ${units[unit] ?? ""}`;
}
