import { z } from "zod";
import { operation } from "./operation.ts";

const repository = "https://github.com/acme/app";

export const EnvironmentUsage = z
  .object({
    repo_url: z.string().meta({ example: repository }),
    entries: z
      .int()
      .meta({ description: "How many: one for each setup and state of its lock files", example: 2 }),
    bytes: z.int().meta({ description: "Their size, with spare copies", example: 314_572_800 }),
    used_at: z.iso.datetime().meta({
      description: "When a job was last given one of them",
      example: "2026-03-01T09:30:00.000Z",
    }),
  })
  .meta({ id: "EnvironmentUsage" });
export type EnvironmentUsage = z.infer<typeof EnvironmentUsage>;

export const environmentOperations = {
  clear_environments: operation({
    title: "Clear warm environments",
    command: { name: "cache clear", group: "Worktrees" },
    summary:
      "Remove what setups have made and what is kept for later jobs, of one repository or of all. Their next job runs its setup anew. What is being given to a job stays.",
    input: z.strictObject({
      repo: z.string().max(500).default("").meta({
        description: "Only of repositories of this name, which may have wildcards; empty: of all",
        example: "github.com/acme/app",
      }),
    }),
    output: z.object({
      success: z.literal(true),
      removed: z.int().meta({ description: "How many were removed", example: 2 }),
      bytes: z.int().meta({ description: "Room that they took", example: 314_572_800 }),
      in_use: z.int().meta({ description: "How many a job is being given: they stayed", example: 0 }),
    }),
    http: { method: "delete", path: "/environments" },
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: [],
  }),
};
