import { setTimeout as delay } from "node:timers/promises";
import type { AgentProcess, AgentTurn, ModelTokens, TurnOutcome } from "../agents/agent.ts";
import { addUsage, type Usage } from "../contract/job.ts";
import { unreported } from "../telemetry/cost.ts";

type Options = Required<Pick<AgentProcess, "spending" | "end">> & {
  /** USD that the process may cost; null: no limit. */
  maxBudgetUsd: number | null;
  /** USD that the budgets of the day leave to a caller. */
  remaining: (principal: string) => Promise<number>;
  /** USD for tokens of a model. */
  priceOf: (model: string, usage: Usage) => Promise<number>;
};

/**
 * Adds what a process spends beyond what its agent reports, and ends it in time. The model may be asked during turns only.
 *
 * | the door saw            | the process has cost                        | its turn                     |
 * |-------------------------|---------------------------------------------|------------------------------|
 * | what the agent reports  |                                             | is as the agent reports it   |
 * | more, at its end        | less than `max_budget_usd`                  | costs that more, estimated   |
 * | more, at its end        | `max_budget_usd`                            | has failed, too: `budget`    |
 * | more, while it runs     | `max_budget_usd`, or what the budgets leave | is ended as well             |
 */
export const watchSpending = ({ spending, end, maxBudgetUsd, remaining, priceOf }: Options) => {
  const { meter, ask } = spending;
  let principal: string | undefined;
  /** Tokens that earlier turns were charged for, and tokens that this turn told without a result. */
  const charged: ModelTokens[] = [];
  let costUsd = 0;
  let over: number | null = null;
  let isDue = false;

  const beyond = (seen: ModelTokens, models = spending.reported()): ModelTokens =>
    unreported(seen, models ?? {}, ...charged);
  const price = async (models: ModelTokens): Promise<number> => {
    const prices = await Promise.all(Object.entries(models).map((each) => priceOf(...each)));
    return prices.reduce((sum, usd) => sum + usd, 0);
  };
  /** Asks the agent before it is ended: only it knows what it has used by now for subagents and titles. */
  const check = async (): Promise<void> => {
    isDue = false;
    const seen = structuredClone(meter.ended);
    await delay(settlingMs, undefined, { ref: false });
    if (over !== null || isNone(beyond(seen))) return;
    const left = principal === undefined ? Infinity : costUsd + (await remaining(principal));
    const limit = Math.min(maxBudgetUsd ?? Infinity, left);
    if ((await price(seen)) < limit) return;
    const session = await ask();
    const more = beyond(seen, session?.model_usage);
    const usd = (session?.total_cost_usd ?? 0) + (await price(more));
    if (isNone(more) || usd < limit) return;
    over = usd;
    meter.isOpen = false;
    await end();
  };
  meter.onEnded = () => {
    // No honest agent asks on by then, and prices differ less.
    void price(meter.ended).then((usd) => (meter.isOpen &&= usd < 3 * (maxBudgetUsd ?? Infinity)));
    if (!isDue) void delay(settlingMs, undefined, { ref: false }).then(check);
    isDue = true;
  };

  return {
    begin: (turn: AgentTurn): void => {
      principal = turn.principal;
      meter.isOpen = over === null;
    },
    end: async (outcome: TurnOutcome, isLast: boolean): Promise<TurnOutcome> => {
      meter.isOpen &&= isLast;
      // Without a result.
      if (outcome.costEstimated && outcome.usage !== null) charged.push({ "": outcome.usage });
      const more = beyond(meter.seen);
      const moreUsd = await price(more);
      const turnUsd = (outcome.costUsd ?? 0) + moreUsd;
      costUsd += turnUsd;
      charged.push(more);
      if (!isNone(more) && maxBudgetUsd !== null && costUsd >= maxBudgetUsd) over ??= costUsd;
      return {
        ...outcome,
        ...(!isNone(more) && {
          usage: Object.values(more).reduce<Usage | null>(addUsage, outcome.usage),
          costUsd: Number(turnUsd.toFixed(10)),
          costEstimated: true,
        }),
        ...(over !== null && overspent(over, isLast)),
      };
    },
  };
};

/** How long the agent may take to read an answer that the door has passed. */
const settlingMs = 2000;

const isNone = (models: ModelTokens): boolean => Object.keys(models).length === 0;

const overspent = (usd: number, isLast: boolean) => ({
  ok: false,
  reason: "budget" as const,
  retryable: false,
  error: `The agent spent at the model what it does not report, some ${usd.toFixed(2)} USD in all: more than its budgets leave.${isLast ? "\nWhat to do: " : " "}Read what it did before you continue it.`,
});
