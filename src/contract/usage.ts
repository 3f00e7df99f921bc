import { z } from "zod";
import { operation } from "./operation.ts";

const Day = z
  .string()
  .refine((text) => text === "" || z.iso.date().safeParse(text).success, "must be a date such as 2026-03-02")
  .default("");

const usageGroups = ["day", "profile", "repository", "model", "key", "kind"] as const;

const UsageInput = z.strictObject({
  since: Day.describe("First day, UTC, as in 2026-03-02; empty: 29 days before until"),
  until: Day.describe("Last day, UTC; empty: today"),
  by: z.enum(usageGroups).default("day").describe("What a row stands for"),
  profile: z.string().max(500).default("").describe("Only runs with this profile"),
  repo_url: z.string().max(500).default("").describe("Only runs on this repository"),
  model: z.string().max(500).default("").describe("Only runs with this model"),
  kind: z.enum(["", "job", "chat"]).default("").describe("Only jobs, or only turns of agent mode"),
});
export type UsageInput = z.infer<typeof UsageInput>;

const tokens = z.int().meta({ description: "Tokens", example: 12_000 });

const UsageFigures = z.object({
  runs: z.int().meta({ description: "Jobs and turns of agent mode that ended", example: 12 }),
  succeeded: z.int().meta({ example: 9 }),
  failed: z.int().meta({ description: "Failed or expired", example: 2 }),
  cancelled: z.int().meta({ example: 1 }),
  success_rate: z
    .number()
    .nullable()
    .meta({ description: "succeeded / (succeeded + failed), 0 to 1; null: none of both", example: 0.8182 }),
  cost_usd: z.number().meta({ description: "Billed cost, USD", example: 3.42 }),
  imputed_cost_usd: z.number().meta({
    description: "USD that runs would have cost whose agent was logged in by subscription; not billed",
    example: 0,
  }),
  estimated_cost_usd: z.number().meta({
    description: "What of the two was reckoned from tokens, as the runs ended without a result",
    example: 0.12,
  }),
  input_tokens: tokens,
  output_tokens: tokens,
  cache_creation_input_tokens: tokens,
  cache_read_input_tokens: tokens,
  turns: z.int().meta({ description: "Turns of the agent's model", example: 64 }),
  duration_ms: z.int().meta({ description: "Milliseconds from start to end, summed", example: 1_830_000 }),
});
export type UsageFigures = z.infer<typeof UsageFigures>;

const UsageRow = z
  .object({
    group: z.string().meta({
      description:
        "The day, profile, repository, model, digest of the API key, or kind; empty: none, or unknown",
      example: "2026-03-02",
    }),
    ...UsageFigures.shape,
  })
  .meta({ id: "UsageRow" });
export type UsageRow = z.infer<typeof UsageRow>;

const Budget = z
  .object({
    of: z.enum(["service", "key", "profile"]).meta({
      description: "What it limits: all runs, those of the caller's API key, or of a profile",
      example: "service",
    }),
    profile: z.string().nullable().meta({ description: "Null: it is not of a profile", example: null }),
    limit_usd: z.number().meta({ description: "USD for a day, UTC", example: 200 }),
    spent_usd: z.number().meta({ description: "USD spent today, by runs that ended", example: 3.42 }),
  })
  .meta({ id: "Budget" });
export type Budget = z.infer<typeof Budget>;

const UsageAnswer = z.object({
  success: z.literal(true),
  since: z.string().meta({ format: "date", example: "2026-02-01" }),
  until: z.string().meta({ format: "date", example: "2026-03-02" }),
  by: z.enum(usageGroups).meta({ example: "day" }),
  count: z.int().meta({ example: 1 }),
  rows: z.array(UsageRow).describe("Days in their order; else the most expensive first"),
  total: UsageFigures,
  budgets: z.array(Budget).describe("Budgets that are set, and what is spent of them today"),
});
export type UsageAnswer = z.infer<typeof UsageAnswer>;
/** What the database of runs knows. */
export type Usage = Omit<UsageAnswer, "budgets">;

export const usageOperations = {
  get_usage: operation({
    title: "Usage and cost",
    command: { name: "usage", group: "Service" },
    summary:
      "What jobs and turns of agent mode cost: runs, success, USD, tokens, by day or another grouping; and the budgets of today.",
    input: UsageInput,
    output: UsageAnswer,
    http: { method: "get", path: "/usage" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["invalid_request", "store_unavailable"],
  }),
};
