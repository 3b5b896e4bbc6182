/** The colours of charts, read from the CSS tokens and again when the theme changes. */
import { useMemo } from "react";
import { useTheme } from "@/ui/theme";

export interface Colours {
  ink: string;
  soft: string;
  line: string;
  strongLine: string;
  card: string;
  accent: string;
  good: string;
  warn: string;
  bad: string;
  quiet: string;
  sans: string;
  /** Told apart by the colour-blind too, as far as eight can be. */
  series: readonly string[];
  dark: boolean;
}

function readColours(dark: boolean): Colours {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: token("ink"),
    soft: token("soft"),
    line: token("line"),
    strongLine: token("strong-line"),
    card: token("card"),
    accent: token("accent"),
    good: token("good"),
    warn: token("warn"),
    bad: token("bad"),
    quiet: token("quiet"),
    sans: token("sans"),
    series: [1, 2, 3, 4, 5, 6, 7, 8].map((index) => token(`chart-${index}`)),
    dark,
  };
}

export function useColours(): Colours {
  const dark = useTheme().shown === "dark";
  return useMemo(() => readColours(dark), [dark]);
}

/** Viridis, a scale that grows evenly lighter and is read by the colour-blind; without its ends that a theme hides. */
const VIRIDIS = [
  "#482475",
  "#414487",
  "#355f8d",
  "#2a788e",
  "#21918c",
  "#22a884",
  "#44bf70",
  "#7ad151",
  "#bddf26",
];

export const LEVELS = 24;

/** LEVELS colours from the worst to the best; the worst is the one nearest to the background. */
export function levelColours(dark: boolean): string[] {
  // On white the yellow end is too pale to be seen, on black the violet one is too dark.
  const stops = dark ? VIRIDIS.slice(1) : VIRIDIS.slice(0, -1).reverse();
  return Array.from({ length: LEVELS }, (_, level) => {
    const at = (level / (LEVELS - 1)) * (stops.length - 1);
    const below = Math.min(Math.floor(at), stops.length - 2);
    return mixed(stops[below] ?? "", stops[below + 1] ?? "", at - below);
  });
}

function mixed(from: string, to: string, share: number): string {
  const part = (text: string, at: number) => parseInt(text.slice(at, at + 2), 16);
  const parts = [1, 3, 5].map((at) => Math.round(part(from, at) + (part(to, at) - part(from, at)) * share));
  return `rgb(${parts.join(" ")})`;
}
