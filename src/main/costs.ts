import type { Agent, AgentLaunch, AgentProcess, AgentTurn, Spent, TurnEvent } from "../agents/agent.ts";
import { addUsage, type Usage } from "../contract/job.ts";
import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import type { createBudgets } from "../telemetry/budgets.ts";
import { costOf, mustBeReckoned, type EarlierRuns } from "../telemetry/cost.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import { watchSpending } from "./spending.ts";

type Dependencies = {
  telemetry: Pick<TelemetrySink, "earlierRuns">;
  budgets: Pick<ReturnType<typeof createBudgets>, "remaining">;
  log: Log;
};

/** An agent whose turns have a cost, also those that end without a result or spend what it does not report. */
export const withCosts = (agent: Agent, deps: Dependencies): Agent => ({
  ...agent,
  start: async (request) => {
    const started = await agent.start(request);
    return started.ok ? { ok: true, process: costing(started.process, request.launch, deps) } : started;
  },
});

const costing = (process: AgentProcess, launch: AgentLaunch, deps: Dependencies): AgentProcess => {
  const { telemetry, budgets, log } = deps;
  let { model } = launch;
  const { maxBudgetUsd } = launch;
  const earlierOf = (name: string): Promise<EarlierRuns | null> =>
    orAborted(telemetry.earlierRuns(name), AbortSignal.timeout(longestQueryMs)).catch(
      (err: unknown) => (log.debug({ err }, "the costs of earlier runs are not known"), null),
    );
  const priceOf = async (name: string, usage: Usage): Promise<number> =>
    costOf({ costUsd: null, usage, model: name, maxBudgetUsd }, await earlierOf(name)).costUsd ?? 0;
  const { spending, end } = process;
  const watch =
    spending && watchSpending({ spending, end, maxBudgetUsd, remaining: budgets.remaining, priceOf });

  const turn = async function* (asked: AgentTurn): AsyncGenerator<TurnEvent, void, void> {
    let earlier: Promise<EarlierRuns | null> | null = null;
    const priced = async <Given extends Pick<Spent, "usage" | "costUsd">>(given: Given) => {
      if (!mustBeReckoned(given)) return { ...given, costEstimated: false };
      earlier ??= earlierOf(model ?? "");
      return { ...given, ...costOf({ ...given, model, maxBudgetUsd }, await earlier) };
    };
    let told: Usage | null = null;
    watch?.begin(asked);
    for await (const event of process.turn(asked)) {
      if (event.type === "started") model = event.model ?? model;
      if (event.type === "ended") {
        const outcome = await priced(event.outcome);
        if (mustBeReckoned(outcome))
          log.warn({ model }, "the cost of a run is not known: its model has no price");
        yield { type: "ended", outcome: (await watch?.end(outcome, asked.isLast === true)) ?? outcome };
      } else yield event;
      if (event.type !== "usage" || asked.isLast !== true) continue;
      told = addUsage(told, event.usage);
      yield { type: "spent", spent: await priced({ usage: told, costUsd: null }) };
    }
  };

  return { ...process, turn };
};

const longestQueryMs = 2000;
