import type { Tidying } from "../jobs/housekeeping.ts";
import { tidy } from "../jobs/housekeeping.ts";
import { createRetries } from "../lib/retries.ts";
import type { Worktrees } from "../worktrees/worktrees.ts";
import { startHousekeeper } from "./housekeeper.ts";

type Dependencies = Omit<Tidying, "removeWorktree" | "retries"> & {
  worktrees: Pick<Worktrees, "leave" | "tidy">;
};

/** Removes what jobs and worktrees have left, once a second. */
export const startTidying = ({ worktrees, ...jobs }: Dependencies) => {
  const retries = createRetries();
  return startHousekeeper(async (signal) => {
    await tidy({ ...jobs, removeWorktree: worktrees.leave, retries }, signal)
      .then(() => worktrees.tidy(signal))
      .catch((err: unknown) => jobs.log.debug({ err }, "tidying was put off"));
  }, 1000);
};
