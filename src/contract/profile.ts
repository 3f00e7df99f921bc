import { z } from "zod";
import { operation } from "./operation.ts";

export const Profile = z
  .object({
    name: z.string().meta({ example: "review" }),
    description: z.string().meta({ example: "Reads and reports, changes nothing" }),
    model: z.string().meta({ example: "haiku" }),
    max_turns: z.int().nullable().meta({ example: 20 }),
    worktree: z.boolean().meta({ example: true }),
    auto_pr: z.boolean().meta({ example: false }),
    permission_mode: z.string().meta({ example: "dontAsk" }),
    budget_day_usd: z
      .number()
      .nullable()
      .meta({ description: "USD that its runs may cost in a day; null: no limit of its own", example: null }),
    source: z
      .string()
      .meta({ description: "Where it was read from: bundled, or its path", example: "bundled" }),
    error: z.string().nullable().describe("Why this profile cannot be used; null: it can"),
  })
  .meta({ id: "Profile" });
export type Profile = z.infer<typeof Profile>;

export const profileOperations = {
  list_profiles: operation({
    title: "List profiles",
    command: { name: "profiles", group: "Tasks" },
    summary: "The profiles that a task can run with. Those that do not load are listed with their error.",
    input: z.strictObject({}),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      profiles: z.array(Profile),
    }),
    http: { method: "get", path: "/profiles" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};
