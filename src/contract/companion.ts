import { z } from "zod";
import { operation } from "./operation.ts";

/** The companion repositories: the hook package, the content repository and the agent hub. */
export const companionTargets = ["hooks", "bundle", "hub"] as const;
export type CompanionTarget = (typeof companionTargets)[number];

const SyncResult = z.string().optional().meta({
  description: "ok, skipped (no url), skipped (path), or error: a sentence; absent: not asked for",
  example: "ok",
});

export const companionOperations = {
  sync_companions: operation({
    title: "Sync companion repositories",
    summary: "Fetch the companion repositories of the instance that answers, now.",
    input: z.strictObject({
      target: z
        .enum(["all", ...companionTargets])
        .default("all")
        .describe("Which to fetch"),
    }),
    output: z.object({ hooks: SyncResult, bundle: SyncResult, hub: SyncResult }),
    http: { method: "post", path: "/admin/sync", query: true },
    mcp: false,
    annotations: { readOnly: false, destructive: false, idempotent: true },
    errors: [],
  }),
};
