import { z } from "zod";
import { operation } from "./operation.ts";

export const Profile = z
  .object({
    name: z.string(),
    description: z.string(),
    model: z.string(),
    max_turns: z.int().nullable(),
    worktree: z.boolean(),
    auto_pr: z.boolean(),
    permission_mode: z.string(),
    source: z.string().meta({ description: "Where it was read from: bundled, or its path" }),
    error: z.string().nullable().meta({ description: "Why this profile cannot be used; null: it can" }),
  })
  .meta({ id: "Profile" });
export type Profile = z.infer<typeof Profile>;

export const profileOperations = {
  list_profiles: operation({
    name: "list_profiles",
    title: "List profiles",
    summary: "The profiles that a task can run with, those that do not load included with their error.",
    input: z.strictObject({}),
    output: z.object({ success: z.literal(true), count: z.int(), profiles: z.array(Profile) }),
    http: { method: "get", path: "/profiles" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};
