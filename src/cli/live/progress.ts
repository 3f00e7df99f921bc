import type { JobEvent } from "../../contract/event.ts";
import { clock } from "../text/duration.ts";
import { cost } from "../text/job-facts.ts";

/** Where a job stands, as far as its events tell. */
export type Progress = {
  stage: string;
  tools: number;
  turns: number | null;
  costUsd: number | null;
  /** Directory of the cached clone. */
  clone: string | null;
};

export const noProgress: Progress = { stage: "queued", tools: 0, turns: null, costUsd: null, clone: null };

export const advance = (progress: Progress, event: JobEvent): Progress => {
  if (event.type === "tool_use") return { ...progress, tools: progress.tools + 1 };
  if (event.type === "stage") {
    const clone = event.stage === "fetched" ? event.detail : progress.clone;
    return { ...progress, stage: event.stage, clone };
  }
  if (event.type !== "result") return progress;
  const { num_turns: turns, cost_usd: costUsd } = event;
  return { ...progress, turns: turns ?? progress.turns, costUsd: costUsd ?? progress.costUsd };
};

/** The line that stands below the account while the job runs. */
export const statusLine = (progress: Progress, elapsedMs: number): string =>
  [
    activity[progress.stage] ?? progress.stage.replaceAll("_", " "),
    clock(elapsedMs),
    progress.turns === null ? null : `${progress.turns} ${progress.turns === 1 ? "turn" : "turns"}`,
    progress.tools === 0 ? null : `${progress.tools} tool ${progress.tools === 1 ? "call" : "calls"}`,
    progress.costUsd === null ? null : cost(progress.costUsd),
  ]
    .filter((part) => part !== null)
    .join(" · ");

/** What goes on after each stage has been passed. */
const activity: Record<string, string> = {
  queued: "waiting for its turn",
  claimed: "fetching the repository",
  fetched: "making the worktree",
  worktree_ready: "starting the agent",
  agent_started: "waiting for the agent",
  first_output: "agent at work",
  result: "finishing",
  pushed: "opening the pull request",
  pull_request: "finishing",
  ended: "ended",
};
