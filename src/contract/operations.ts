import { companionOperations } from "./companion.ts";
import { completionOperations } from "./completion.ts";
import { instanceOperations } from "./instance.ts";
import { jobOperations } from "./job.ts";
import type { Operation } from "./operation.ts";
import { profileOperations } from "./profile.ts";
import { usageOperations } from "./usage.ts";
import { worktreeOperations } from "./worktree.ts";

/** Every operation of the service. */
export const operations = {
  ...jobOperations,
  ...profileOperations,
  ...worktreeOperations,
  ...instanceOperations,
  ...companionOperations,
  ...usageOperations,
  ...completionOperations,
};

export type Operations = typeof operations;

/** Names of the MCP tools, in order. */
export const toolNames = (Object.keys(operations) as (keyof Operations)[]).filter(
  (name) => (operations[name] as Operation).mcp !== false,
);
