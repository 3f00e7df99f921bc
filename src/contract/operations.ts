import { completionOperations } from "./completion.ts";
import { instanceOperations } from "./instance.ts";
import { jobOperations } from "./job.ts";
import { profileOperations } from "./profile.ts";
import { usageOperations } from "./usage.ts";
import { worktreeOperations } from "./worktree.ts";

/** Every operation of the service. */
export const operations = {
  ...jobOperations,
  ...profileOperations,
  ...worktreeOperations,
  ...instanceOperations,
  ...usageOperations,
  ...completionOperations,
};

export type Operations = typeof operations;
