import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import type { SpentQuery, TelemetrySink } from "./sink.ts";

type Dependencies = {
  settings: Pick<Settings, "budgetDayUsd" | "budgetKeyDayUsd" | "budgetImputed">;
  telemetry: Pick<TelemetrySink, "spent">;
  now: () => Date;
  log: Log;
};

/** Who wants to run an agent. `budgetDayUsd`: of the profile or agent; null: it has none. */
export type Spender = { profile: string; budgetDayUsd: number | null; principal: string };

type Budget = { limit: number | null; of: string; raise: string; query: Partial<SpentQuery> };

/**
 * Refuses what would exceed a budget of the day (UTC). Counts what has ended: jobs that run or wait are not stopped. An
 * unreachable database refuses nothing.
 */
export const createBudgets = ({ settings, telemetry, now, log }: Dependencies) => {
  const spentOn = async (query: SpentQuery): Promise<number> => {
    try {
      return await orAborted(telemetry.spent(query), AbortSignal.timeout(longestQueryMs));
    } catch (err) {
      log.warn({ err }, "a budget could not be checked: the database of costs does not answer");
      return 0;
    }
  };

  return {
    /** @throws ServiceError `budget_reached` */
    require: async ({ profile, budgetDayUsd, principal }: Spender): Promise<void> => {
      const at = now();
      const day = at.toISOString().slice(0, 10);
      const { budgetImputed: imputed } = settings;
      const budgets: Budget[] = [
        { limit: settings.budgetDayUsd, of: "the service", raise: "SERVICE_BUDGET_DAY_USD", query: {} },
        {
          limit: settings.budgetKeyDayUsd,
          of: "this API key",
          raise: "SERVICE_BUDGET_KEY_DAY_USD",
          query: { principal },
        },
        {
          limit: budgetDayUsd,
          of: `the profile ${profile}`,
          raise: "its budget_day_usd",
          query: { profile },
        },
      ];
      const midnight = Date.parse(`${day}T00:00:00.000Z`) + 86_400_000;
      for (const { limit, of, raise, query } of budgets) {
        if (limit === null) continue;
        const spent = await spentOn({ day, imputed, ...query });
        if (spent < limit) continue;
        const figures = `${spent.toFixed(2)} of ${limit.toFixed(2)} USD`;
        throw new ServiceError(
          "budget_reached",
          `The budget of ${of} for today is spent (${figures}); try again after ${new Date(midnight).toISOString()}, or raise ${raise}`,
          { retryAfter: Math.ceil((midnight - at.getTime()) / 1000) },
        );
      }
    },
  };
};

const longestQueryMs = 2000;
