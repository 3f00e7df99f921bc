import type { UsageFigures } from "../../../src/contract/usage.ts";
import { cost, duration } from "../../../src/view/quantities.ts";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A figure of some runs; null: they have none. */
export type Measure = {
  title: string;
  of: (figures: UsageFigures) => number | null;
  text: (value: number, figures?: UsageFigures) => string;
  /** Of the axis; absent: that of the largest value. */
  most?: number;
};

export const costOf = ({ cost_usd, imputed_cost_usd }: UsageFigures): number => cost_usd + imputed_cost_usd;

export const measures: readonly Measure[] = [
  {
    title: "Cost",
    of: costOf,
    text: (usd, figures) => (usd === 0 ? "$0" : cost(usd, (figures?.estimated_cost_usd ?? 0) > 0)),
  },
  {
    title: "Tokens",
    of: (row) =>
      row.input_tokens + row.output_tokens + row.cache_creation_input_tokens + row.cache_read_input_tokens,
    text: (tokens) => compact.format(tokens),
  },
  {
    title: "Success rate",
    of: ({ success_rate: rate }) => rate,
    text: (rate) => `${Math.floor(rate * 100)} %`,
    most: 1,
  },
  {
    title: "Time of a run",
    of: ({ runs, duration_ms }) => (runs === 0 ? null : duration_ms / runs),
    text: (ms) => (ms === 0 ? "0" : duration(ms)),
  },
];

export const shown = ({ of, text }: Measure, figures: UsageFigures): string => {
  const value = of(figures);
  return value === null ? "–" : text(value, figures);
};
