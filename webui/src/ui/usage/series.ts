import type { UsageSample } from "@/data/usage";

type Points = [number, number][];

export interface UsageSeries {
  cpus: Points;
  /** In bytes. */
  memory: Points;
  /** Percent busy, by the index of the GPU. */
  gpus: Map<number, Points>;
}

const MIB = 1024 * 1024;

/** The samples as lines over time; instants in milliseconds. */
export function seriesOf(samples: readonly UsageSample[]): UsageSeries {
  const series: UsageSeries = { cpus: [], memory: [], gpus: new Map() };
  for (const sample of samples) {
    const at = Date.parse(sample.at);
    series.cpus.push([at, sample.cpus]);
    series.memory.push([at, sample.memoryMb * MIB]);
    for (const { index, busyPercent } of sample.gpus) {
      if (busyPercent === null) continue;
      const points = series.gpus.get(index) ?? [];
      series.gpus.set(index, points);
      points.push([at, busyPercent]);
    }
  }
  return series;
}

export const highest = (points: Points) => points.reduce((most, [, value]) => Math.max(most, value), 0);
