import type { JobRecord } from "../../src/store/job-record.ts";
import type { Accepted } from "./instance-load.ts";
import type { Window } from "./instance-windows.ts";
import type { World } from "./instance-world.ts";

/**
 * What becomes of an instance that was struck: started again at once, once the others have settled its runs, or only when
 * all is looked at; or not killed, but frozen until they have.
 */
export type Fate = "atOnce" | "later" | "atTheEnd" | "frozen";

export type InstanceTally = {
  kills: number;
  fates: Record<Fate, number>;
  jobs: number;
  outcomes: Record<string, number>;
  /** Runs that a kill met, by the stage they were in. */
  hits: Record<string, number>;
  /** Kills of an instance that was held up there. */
  windows: Record<Window, number>;
  agents: number;
  /** Jobs that were given to more than one agent, one after another. */
  runAgain: number;
  /**
   * Longest times, ms: from the kill until others had settled a run; from the restart's first word until it had, and until
   * it had cleaned up after it; from the thaw until the agents were gone.
   */
  slowest: { byOthers: number; byRestart: number; cleanUp: number; afterThaw: number };
  faults: string[];
};

export const newTally = (): InstanceTally => ({
  kills: 0,
  fates: { atOnce: 0, later: 0, atTheEnd: 0, frozen: 0 },
  jobs: 0,
  outcomes: {},
  hits: {},
  windows: { "after the push": 0, "before the outcome": 0, "inside settling": 0 },
  agents: 0,
  runAgain: 0,
  slowest: { byOthers: 0, byRestart: 0, cleanUp: 0, afterThaw: 0 },
  faults: [],
});

/** A run that was under way on an instance when that was killed. */
export type Hit = {
  id: string;
  attempt: number;
  epoch: string;
  spawned: boolean;
  running: boolean;
  stage: string;
};

/** The runs that the killed instance had. */
export const meet = async (
  world: World,
  name: string,
  accepted: Accepted[],
  tally: InstanceTally,
): Promise<Hit[]> => {
  const records = await Promise.all(accepted.map(({ id }) => world.record(id)));
  const present = records.filter((record) => record !== null);
  for (const { status } of present) if (status === "queued") count(tally.hits, "queued");
  const met = present.filter(({ pod_name, unsettled }) => pod_name === name && unsettled);
  for (const record of met) count(tally.hits, stageOf(record));
  return met.map((record) => ({
    id: record.id,
    attempt: record.attempt,
    epoch: record.instance_epoch ?? "",
    spawned: record.process !== null,
    running: record.status === "running",
    stage: stageOf(record),
  }));
};

const stages: Record<string, string> = {
  claimed: "fetching",
  fetched: "checkout",
  worktree_ready: "agent starting",
  agent_started: "agent started",
  first_output: "agent at work",
  result: "result, delivering",
  pushed: "pushed, settling",
  pull_request: "pushed, settling",
};

const stageOf = ({ status, stages: seen, attempt }: JobRecord): string => {
  if (status !== "running") return `${status}, being cleaned up`;
  const last = seen.findLast((each) => each.attempt === attempt)?.stage ?? "claimed";
  return stages[last] ?? last;
};

const count = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};
