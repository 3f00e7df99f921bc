import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Profile } from "../contract/profile.ts";
import type { Budget } from "../contract/usage.ts";
import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import type { SpentQuery, TelemetrySink } from "./sink.ts";

type Dependencies = {
  settings: Pick<Settings, "budgetDayUsd" | "budgetKeyDayUsd" | "budgetImputed" | "agentOauthToken">;
  telemetry: Pick<TelemetrySink, "spent">;
  now: () => Date;
  log: Log;
};

/** The caller that wants to run an agent. `budgetDayUsd`: of the profile or agent; null: it has none. */
export type Spender = { profile: string; budgetDayUsd: number | null; principal: string };

type Limit = { limit: number | null; of: Budget["of"]; query: Pick<SpentQuery, "profile" | "principal"> };

/**
 * Refuses what would exceed a budget of the day (UTC). Counts what has ended: jobs that run or wait are not stopped, unless
 * they spend what their agent does not report. An unreachable database refuses nothing.
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

  const shared = (principal: string): Limit[] => [
    { of: "service", limit: settings.budgetDayUsd, query: {} },
    { of: "key", limit: settings.budgetKeyDayUsd, query: { principal } },
  ];
  const today = () => ({ day: now().toISOString().slice(0, 10), imputed: settings.budgetImputed });

  return {
    /** @throws ServiceError `budget_reached` */
    require: async ({ profile, budgetDayUsd, principal }: Spender): Promise<void> => {
      const asked = today();
      const budgets: Limit[] = [
        ...shared(principal),
        { of: "profile", limit: budgetDayUsd, query: { profile } },
      ];
      const midnight = Date.parse(`${asked.day}T00:00:00.000Z`) + 86_400_000;
      for (const { limit, of, query } of budgets) {
        if (limit === null) continue;
        const spent = await spentOn({ ...asked, ...query });
        if (spent < limit) continue;
        const figures = `${spent.toFixed(2)} of ${limit.toFixed(2)} USD`;
        const whose = of === "profile" ? `the profile ${profile}` : owners[of];
        throw new ServiceError(
          "budget_reached",
          `The budget of ${whose} for today is spent (${figures}); try again after ${new Date(midnight).toISOString()}, or raise ${variables[of]}`,
          { retryAfter: Math.ceil((midnight - now().getTime()) / 1000) },
        );
      }
    },
    /** USD that the budgets of the service and of a key leave to what runs; Infinity: there are none. */
    remaining: async (principal: string): Promise<number> => {
      const asked = today();
      if (settings.agentOauthToken !== null && !asked.imputed) return Infinity;
      const left = shared(principal).map(async ({ limit, query }) =>
        limit === null ? Infinity : limit - (await spentOn({ ...asked, ...query })),
      );
      return Math.min(...(await Promise.all(left)));
    },
    /** The budgets that are set, of all profiles, and today's costs. @throws ServiceError `store_unavailable` */
    list: (principal: string, profiles: readonly Profile[]): Promise<Budget[]> => {
      const asked = today();
      const limits: Limit[] = [
        ...shared(principal),
        ...profiles.map(({ name: profile, budget_day_usd: limit }) => ({
          of: "profile" as const,
          limit,
          query: { profile },
        })),
      ];
      return Promise.all(
        limits.flatMap(({ of, limit, query }) =>
          limit === null
            ? []
            : telemetry.spent({ ...asked, ...query }).then((spent) => ({
                of,
                profile: query.profile ?? null,
                limit_usd: limit,
                spent_usd: spent,
              })),
        ),
      );
    },
  };
};

const owners = { service: "the service", key: "this API key" };

const variables = {
  service: "SERVICE_BUDGET_DAY_USD",
  key: "SERVICE_BUDGET_KEY_DAY_USD",
  profile: "its budget_day_usd",
};

const longestQueryMs = 2000;
