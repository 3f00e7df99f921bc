import type { Job, StageName } from "../contract/job.ts";
import { aligned } from "./columns.ts";
import { duration } from "./quantities.ts";

/** The part of a job that begins with each stage: its name, and what happens then. */
const parts: Record<StageName, [name: string, doing: string]> = {
  queued: ["queue", "waiting for its turn"],
  claimed: ["fetch", "fetching the repository"],
  fetched: ["worktree", "making the worktree"],
  worktree_ready: ["start", "starting the agent"],
  setup: ["start", "starting the agent"],
  agent_started: ["first answer", "waiting for the agent"],
  first_output: ["agent", "agent at work"],
  result: ["commit", "finishing"],
  checks: ["checks", "checking the work"],
  pushed: ["pull request", "opening the pull request"],
  pull_request: ["end", "finishing"],
  ended: ["end", "ended"],
};

/** What a job does after this stage; `in_setup`: while its setup runs. */
export const doingAfter = (stage: StageName | "in_setup"): string =>
  stage === "in_setup" ? "setting up" : parts[stage][1];

/** A part of a job's time. `isNow`: it goes on. */
type Part = { name: string; at: string; ms: number; attempt: number; isNow: boolean };

/** What the time of a job went into, in order, from its stages. */
export const timeOf = (
  stages: Job["stages"],
  { ended_at: end, now }: Pick<Job, "ended_at"> & { now: number },
): Part[] =>
  stages
    .filter(({ stage }) => stage !== "ended")
    .map(({ stage, at, attempt }, index) => {
      const next = stages[index + 1];
      const until = next?.at ?? end;
      const ms = Math.max(0, (until === null ? now : Date.parse(until)) - Date.parse(at));
      // The setup ends with its stage.
      const name = next?.stage === "setup" ? "setup" : parts[stage][0];
      return { name, at, ms, attempt, isNow: until === null };
    });

/** A line for each part: its begin (UTC), how long it took, and its share of the whole. */
export const timeLines = (job: Job, now: number): string[] => {
  const all = timeOf(job.stages, { ...job, now });
  const whole = all.reduce((sum, { ms }) => sum + ms, 0);
  const attempts = new Set(all.map(({ attempt }) => attempt).filter((attempt) => attempt > 0));
  return aligned(
    all.map(({ name, at, ms, attempt, isNow }) => [
      name + (attempts.size > 1 && attempt > 0 ? ` (attempt ${attempt})` : "") + (isNow ? ", until now" : ""),
      at.slice(11, 23),
      duration(ms).padStart(8),
      whole === 0 ? "" : `${Math.round((100 * ms) / whole)} %`.padStart(5),
    ]),
  );
};
