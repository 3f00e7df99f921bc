import stringWidth from "string-width";
import { expect, test } from "vitest";
import type { UsageAnswer, UsageRow } from "../contract/usage.ts";
import { unpainted } from "./paint.ts";
import { usagePage } from "./service.ts";

const row = (group: string, changes: Partial<UsageRow> = {}): UsageRow => ({
  group,
  runs: 4,
  succeeded: 3,
  failed: 1,
  cancelled: 0,
  success_rate: 0.75,
  cost_usd: 2,
  imputed_cost_usd: 0,
  estimated_cost_usd: 0,
  input_tokens: 1000,
  output_tokens: 200,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 1_000_000,
  turns: 30,
  duration_ms: 90_000,
  ...changes,
});

const answer = (rows: UsageRow[], changes: Partial<UsageAnswer> = {}): UsageAnswer => {
  const { group: _, ...total } = row("", {
    runs: 1234,
    cost_usd: rows.reduce((sum, { cost_usd }) => sum + cost_usd, 0),
  });
  const period = { since: "2026-02-01", until: "2026-03-02", by: "day" } as const;
  return { success: true, ...period, count: rows.length, rows, total, budgets: [], ...changes };
};

const days = [row("2026-03-01"), row("2026-03-02", { cost_usd: 0.5, success_rate: null })];

test("the total is below the rows", () => {
  expect(usagePage(answer(days), { paint: unpainted, columns: 60 }).split("\n")).toEqual([
    "DAY          RUNS    OK  TOKENS  TURNS    TIME     COST",
    "2026-03-01      4  75 %      1M     30  1m 30s    $2.00",
    "2026-03-02      4     –      1M     30  1m 30s  $0.5000",
    "total       1,234  75 %      1M     30  1m 30s    $2.50",
    "2026-02-01 to 2026-03-02",
  ]);
});

test("costs that were reckoned from tokens are marked", () => {
  const rows = [row("2026-03-01"), row("2026-03-02", { estimated_cost_usd: 0.25 })];
  const body = answer(rows);
  body.total.estimated_cost_usd = 0.25;
  const lines = usagePage(body, { paint: unpainted, columns: 100 }).split("\n");
  expect(lines.map((line) => / (≈?\$\d\.\d\d)/.exec(line)?.[1])).toEqual([
    undefined,
    "$2.00",
    "≈$2.00",
    "≈$4.00",
    undefined,
    undefined,
  ]);
  expect(lines.at(-1)).toBe("≈$0.2500 of the cost is reckoned from tokens: runs ended without a result");
});

test.each([60, 80, 120])("fits a terminal of %i columns, whatever the names", (columns) => {
  const repositories = [
    row("https://github.com/a-long-organisation/an-even-longer-name-of-a-repository-日本語", {
      runs: 1_234_567,
    }),
    row("", { cost_usd: 123_456.78, imputed_cost_usd: 4 }),
    row("x\u001b[2J\ny"),
  ];
  const body = answer(repositories, { by: "repository" });
  body.total.imputed_cost_usd = 4;
  const page = usagePage(body, { paint: unpainted, columns });
  for (const line of page.split("\n")) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
  expect(page).toContain("repository-日本語");
  expect(page).not.toContain("\u001b");
  expect(page.includes("TOKENS")).toBe(columns > 60);
  expect(page.replaceAll("\n", " ")).toContain("imputed: the agent was logged in by subscription");
});

test("without runs it says so", () => {
  expect(usagePage(answer([]), { paint: unpainted })).toBe("No runs from 2026-02-01 to 2026-03-02");
});

test("what is left of each budget of today is below, never less than nothing", () => {
  const budgets = [
    { of: "service" as const, profile: null, limit_usd: 200, spent_usd: 3.5 },
    { of: "profile" as const, profile: "code", limit_usd: 2, spent_usd: 2.25 },
  ];
  const lines = ["Budget of the service today: $196.50 of $200.00 left"];
  lines.push("Budget of code today: $0.0000 of $2.00 left");
  expect(usagePage(answer(days, { budgets }), { paint: unpainted }).split("\n").slice(-2)).toEqual(lines);
  expect(usagePage(answer([], { budgets }), { paint: unpainted }).split("\n").slice(1)).toEqual(lines);
});
