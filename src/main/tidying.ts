import type { Retention } from "../jobs/retention.ts";
import { applyRetention } from "../jobs/retention.ts";
import { createRetries } from "../lib/retries.ts";
import type { Worktrees } from "../worktrees/worktrees.ts";
import { startRepeating } from "./housekeeper.ts";

type Dependencies = Omit<Retention, "removeWorktree" | "retries"> & {
  worktrees: Pick<Worktrees, "leave" | "tidy">;
};

/** Removes what jobs and worktrees have left, once a second. */
export const startRetention = ({ worktrees, ...jobs }: Dependencies) => {
  const retries = createRetries();
  return startRepeating(async (signal) => {
    await applyRetention({ ...jobs, removeWorktree: worktrees.leave, retries }, signal)
      .then(() => worktrees.tidy(signal))
      .catch((err: unknown) => jobs.log.debug({ err }, "tidying was put off"));
  }, 1000);
};
