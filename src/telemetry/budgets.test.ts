import { expect, test } from "vitest";
import { createLog } from "../lib/log.ts";
import { createBudgets } from "./budgets.ts";
import type { SpentQuery } from "./sink.ts";

const now = (): Date => new Date("2026-03-02T18:30:00.000Z");
const none = { budgetDayUsd: null, budgetKeyDayUsd: null, budgetImputed: false, agentOauthToken: null };
const ana = { profile: "code", budgetDayUsd: null, principal: "ana" };

const budgetsOf = (
  settings: Partial<{ [Key in keyof typeof none]: (typeof none)[Key] | number | boolean | string }>,
  spent: (query: SpentQuery) => Promise<number>,
) => {
  const asked: SpentQuery[] = [];
  const lines: string[] = [];
  const budgets = createBudgets({
    settings: { ...none, ...settings } as typeof none,
    telemetry: { spent: (query) => (asked.push(query), spent(query)) },
    now,
    log: createLog("info", (line) => (lines.push(line), "")),
  });
  return { budgets, asked, lines };
};

test.each([
  ["the service", { budgetDayUsd: 10 }, ana, { day: "2026-03-02", imputed: false }],
  ["this API key", { budgetKeyDayUsd: 10 }, ana, { day: "2026-03-02", imputed: false, principal: "ana" }],
  [
    "the profile code",
    {},
    { ...ana, budgetDayUsd: 10 },
    { day: "2026-03-02", imputed: false, profile: "code" },
  ],
])("a spent budget of %s refuses, with the time it lifts", async (of, settings, who, query) => {
  const { budgets, asked } = budgetsOf(settings, async () => 10);
  await expect(budgets.require(who)).rejects.toMatchObject({
    code: "budget_reached",
    retryAfter: 19_800,
    message: expect.stringMatching(
      new RegExp(`The budget of ${of} .*10.00 of 10.00 USD.*after 2026-03-03T00:00:00.000Z`),
    ),
  });
  expect(asked).toEqual([query]);
  await budgetsOf(settings, async () => 9.99).budgets.require(who);
});

test("all that are set are listed with what is spent; the database is not asked for others", async () => {
  const { budgets, asked } = budgetsOf({ budgetKeyDayUsd: 25 }, async ({ profile }) => (profile ? 7 : 3));
  const code = {
    name: "code",
    description: "",
    model: "",
    max_turns: null,
    worktree: true,
    auto_pr: false,
    permission_mode: "default",
    budget_day_usd: 5,
    source: "bundled",
    error: null,
  };
  expect(await budgets.list("ana", [code, { ...code, name: "free", budget_day_usd: null }])).toEqual([
    { of: "key", profile: null, limit_usd: 25, spent_usd: 3 },
    { of: "profile", profile: "code", limit_usd: 5, spent_usd: 7 },
  ]);
  expect(asked).toHaveLength(2);
});

test("costs that are not billed count when asked for; without a budget the database is not asked", async () => {
  const free = budgetsOf({}, async () => 1000);
  await free.budgets.require(ana);
  expect(free.asked).toEqual([]);
  const { budgets, asked } = budgetsOf({ budgetDayUsd: 10, budgetImputed: true }, async () => 0);
  await budgets.require(ana);
  expect(asked).toEqual([{ day: "2026-03-02", imputed: true }]);
});

test("a database that fails refuses nothing, and the log says so", async () => {
  const { budgets, lines } = budgetsOf({ budgetDayUsd: 10 }, async () => {
    throw new Error("unreachable");
  });
  await budgets.require(ana);
  expect(lines.join()).toContain("a budget could not be checked");
});
