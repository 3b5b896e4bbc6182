export const usage = {
  cpus: "CPUs in use",
  memory: "Memory in use",
  gpus: "GPUs busy (%)",
  gpu: (index: number) => `GPU ${index}`,
  time: "Time",
  summary: (last: string, most: string) => `Now or last ${last}, at most ${most}.`,
  gpuSummary: (most: string) => `At most ${most} %.`,
  gpuUnknown: "The machine does not report how busy its GPUs are.",
  none: "Nothing has been measured yet. Keepers measure while trials run: every 10 s at first, every minute in the end.",
  trialNote: "All processes of the attempt together; memory that they share counts for each of them.",
  machineNote: "The whole machine, with everything else that runs there. Measured only while trials run.",
} as const;
