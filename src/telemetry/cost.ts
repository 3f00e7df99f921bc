import { hasTokens, type Usage } from "../contract/job.ts";

export type SpentRun = {
  /** As the agent reported it; null: it did not. */
  costUsd: number | null;
  usage: Usage | null;
  /** Null: unknown. */
  model: string | null;
  /** What the run was allowed to cost; null: no limit. */
  maxBudgetUsd: number | null;
};

/** Earlier runs of a model for which the agent reported a cost, added up. */
export type EarlierRuns = { costUsd: number; usage: Usage };

/**
 * What a run cost, USD. One that ended without a result costs what its tokens cost, and never 0:
 *
 * | the agent reported                  | the cost is                                      | estimated |
 * |-------------------------------------|--------------------------------------------------|-----------|
 * | a cost, or neither cost nor tokens  | what it reported                                 | no        |
 * | tokens, and there are earlier runs  | its tokens at the price of the model's last runs | yes       |
 * | tokens, of a model of the table     | its tokens at the table's price                  | yes       |
 * | tokens, and there is a limit        | `max_budget_usd`                                 | yes       |
 * | tokens                              | unknown (null)                                   | no        |
 */
export const costOf = (
  run: SpentRun,
  earlier: EarlierRuns | null,
): { costUsd: number | null; costEstimated: boolean } => {
  if (!mustBeReckoned(run)) return { costUsd: run.costUsd, costEstimated: false };
  const price = priceOf(earlier) ?? listPrice(run.model);
  const costUsd = price === null ? run.maxBudgetUsd : Number((price * weightOf(run.usage)).toFixed(10));
  return { costUsd, costEstimated: costUsd !== null };
};

/**
 * The tokens that the model's answers named and that are not reported, by model.
 *
 * | reported are                              | of each model these are                        |
 * |-------------------------------------------|------------------------------------------------|
 * | all, but for 1 % of what those are worth  | none                                           |
 * | less                                      | the difference, for each kind of token         |
 * | some by a name that no answer has         | the same, less what has that name: it is an alias |
 */
export const unreported = (seen: ByModel, ...reported: ByModel[]): ByModel => {
  const rest = structuredClone(seen);
  for (const [name, usage] of reported.flatMap((each) => Object.entries(structuredClone(each)))) {
    const same = rest[name.replace(/\[[^\]]*\]$/, "")];
    for (const tokens of same === undefined ? Object.values(rest) : [same]) takeOff(tokens, usage);
  }
  return weightIn([rest]) * 100 > weightIn(reported) ? rest : {};
};

type ByModel = Readonly<Record<string, Usage>>;

const weightIn = (all: readonly ByModel[]): number =>
  all.flatMap((each) => Object.values(each)).reduce((sum, usage) => sum + weightOf(usage), 0);

/** From both, as far as both have them. */
const takeOff = (from: Usage, usage: Usage): void => {
  for (const kind of Object.keys(from) as (keyof Usage)[]) {
    const both = Math.min(from[kind], usage[kind]);
    from[kind] -= both;
    usage[kind] -= both;
  }
};

/** Whether the agent reported tokens and no cost. */
export const mustBeReckoned = <Run extends Pick<SpentRun, "costUsd" | "usage">>(
  run: Run,
): run is Run & { usage: Usage } => (run.costUsd ?? 0) === 0 && hasTokens(run.usage);

/** Tokens in units of one input token: the prices of the vendor's models differ, the proportions do not. */
const weightOf = (usage: Usage): number =>
  usage.input_tokens +
  5 * usage.output_tokens +
  1.25 * usage.cache_creation_input_tokens +
  0.1 * usage.cache_read_input_tokens;

/** USD per unit. */
const priceOf = (earlier: EarlierRuns | null): number | null =>
  earlier === null || !hasTokens(earlier.usage) ? null : earlier.costUsd / weightOf(earlier.usage);

const listPrice = (model: string | null): number | null => {
  const found = listPrices.find(([names]) => names.test(model ?? ""));
  return found === undefined ? null : found[1] / 1_000_000;
};

/** USD per million input tokens, as of 29 June 2026. The first that fits. */
const listPrices: readonly [RegExp, number][] = [
  [/mythos/i, 10],
  [/3-opus|opus-4-(0|1|2025)/i, 15],
  [/opus/i, 5],
  [/sonnet/i, 3],
  [/haiku-3-5|3-5-haiku/i, 0.8],
  [/haiku/i, 1],
];
