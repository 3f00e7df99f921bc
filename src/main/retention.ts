import { type Retention, applyRetention } from "../jobs/retention.ts";
import { createRetries } from "../lib/retries.ts";
import type { Worktrees } from "../worktrees/worktrees.ts";
import { pause } from "../lib/wait.ts";
import { createClockCheck } from "./clock-check.ts";

type Dependencies = Omit<Retention, "removeWorktree" | "retries"> & {
  worktrees: Pick<Worktrees, "release" | "applyRetention">;
  shared: boolean;
};

/** Applies the retention of jobs and worktrees: once a second, or every 5 s, because each round asks a shared store. */
export const startRetention = ({ worktrees, shared, ...jobs }: Dependencies) => {
  const retries = createRetries();
  const mayDelete = createClockCheck(jobs);
  return startRepeating(
    async (signal) => {
      if (!mayDelete()) return;
      await applyRetention({ ...jobs, removeWorktree: worktrees.release, retries }, signal)
        .then(() => worktrees.applyRetention(signal))
        .catch((err: unknown) => jobs.log.debug({ err }, "retention was put off"));
    },
    shared ? 5000 : 1000,
  );
};

/**
 * Repeats `round`, with `intervalMs` between the end of one and the start of the next. `stop` waits for the round in
 * flight.
 */
export const startRepeating = (round: (signal: AbortSignal) => Promise<void>, intervalMs: number) => {
  const controller = new AbortController();
  const loop = (async () => {
    while (!controller.signal.aborted) {
      await round(controller.signal);
      await pause(intervalMs, controller.signal);
    }
  })();
  return {
    stop: async (): Promise<void> => {
      controller.abort();
      await loop;
    },
  };
};
