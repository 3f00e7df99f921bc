import type { Worker } from "../jobs/worker.ts";
import type { Log } from "../lib/log.ts";

type Dependencies = {
  worker: Pick<Worker, "runningCount" | "idle">;
  agentMode: { counts: () => { turns: number }; idle: (signal: AbortSignal) => Promise<void> } | null;
  log: Log;
};

/** Gives what is under way `seconds` to come to its end by itself, unless one of the signals is aborted. */
export const finish = async (
  { worker, agentMode, log }: Dependencies,
  seconds: number,
  hurry: AbortSignal[],
): Promise<void> => {
  const jobs = worker.runningCount();
  const answers = agentMode?.counts().turns ?? 0;
  if (seconds === 0 || jobs + answers === 0) return;
  log.info({ jobs, answers }, `draining: what is under way gets ${seconds} s to finish`);
  const signal = AbortSignal.any([...hurry, AbortSignal.timeout(seconds * 1000)]);
  await Promise.all([worker.idle(signal), agentMode?.idle(signal)]);
};
