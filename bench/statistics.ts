/** The value below which the share `p` (0 to 1) of the samples lies. */
export const percentile = (samples: readonly number[], p: number): number => {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN;
};

export const median = (samples: readonly number[]): number => percentile(samples, 0.5);

/** One line of the bench table. */
export type Figure = {
  what: string;
  /** What ours and the baseline measured, with unit, in words. */
  ours: string;
  baseline: string;
  /** The number that is held against the target. */
  value: number;
  unit: "x" | "ms" | "ms/s" | "KB" | "MB" | "MB/s" | "failures";
  target: string;
  met: boolean;
};

export const atLeast = (value: number, limit: number): boolean => value >= limit;

export const atMost = (value: number, limit: number): boolean => value <= limit;

export const printFigures = (figures: readonly Figure[]): void => {
  process.stdout.write("\n| what | ours | baseline | value | to reach | |\n|---|---|---|---|---|---|\n");
  for (const { what, ours, baseline, value, unit, target, met } of figures) {
    const shown = `${value.toFixed(unit === "failures" ? 0 : 2)}${unit === "x" ? " ×" : ` ${unit}`}`;
    process.stdout.write(
      `| ${what} | ${ours} | ${baseline} | ${shown} | ${target} | ${met ? "met" : "MISSED"} |\n`,
    );
  }
};
