import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Worker } from "../jobs/worker.ts";
import type { Log } from "../lib/log.ts";
import { poll } from "../lib/wait.ts";
import { inKv, requireFormat } from "../store/format.ts";
import { createRedisInstances, type Instances } from "../store/instances.ts";
import { createJobStore, jobKind, type JobStore } from "../store/job-store.ts";
import { openRedisRecords } from "../store/redis-records.ts";

type Named = Pick<Settings, "kvOptionsFile" | "kvKeyPrefix" | "podName" | "instanceLease"> & {
  kvUrl: string;
};
/** `timeout` in seconds. */
type Request = { timeout: number; signal: AbortSignal; say: (sentence: string) => void };

/**
 * Asks the instance of this name to accept no new jobs and waits until it runs none. Loads only the store: shutdown hooks,
 * which have little time, run it.
 * @throws Error with a sentence for the operator when the store cannot be used
 */
export const drainInstance = async (
  { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, podName: name, instanceLease }: Named,
  request: Request,
): Promise<Drained> => {
  const { timeout, signal } = request;
  const patience = Math.min(timeout * 1000, longestConnect);
  // Loaded on demand, as in `stores.ts`.
  const { connectKv } = await import("../kv/connect.ts");
  const kv = await connectKv({ url, optionsFile, prefix, log: silent, signal, patience });
  try {
    await requireFormat(inKv(kv), { mark: false });
    const store = createJobStore(openRedisRecords(jobKind(name), { kv, now: kv.now, log: silent }), name);
    const lease = { self: null, leaseSeconds: instanceLease };
    const instances = createRedisInstances({ kv, name, ...lease, log: silent });
    return await untilDrained({ store, instances }, { ...request, name });
  } finally {
    await kv.close();
  }
};

/** Time after which the store counts as unreachable, ms. */
const longestConnect = 15_000;

/** Everything is reported to the operator in sentences instead. */
const nothing = (): void => undefined;
const silent: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

type Dependencies = {
  store: Pick<JobStore, "unsettled" | "get">;
  instances: Pick<Instances, "askToDrain" | "list">;
};

/** `left`: what it still runs; null: it has not confirmed the drain. `living`: the instances that there are. */
export type Drained =
  | { outcome: "drained"; jobs: string[]; seconds: number }
  | { outcome: "absent"; living: string[] }
  | { outcome: "late"; left: string | null }
  | { outcome: "interrupted"; withdrawn: boolean };

/** The drain request outlives the wait by so many seconds: after a timeout the instance is about to be stopped. */
export const flagMargin = 60;

const interval = 500;
const progressEvery = 10_000;

/**
 * Waits until the instance runs no job and no turn, also while the store is away. Then, or when interrupted, withdraws the
 * request. After a timeout the request lapses by itself, so that no job begins just before the stop.
 */
const untilDrained = async (
  deps: Dependencies,
  { name, timeout, signal, say }: Request & { name: string },
): Promise<Drained> => {
  const began = performance.now();
  const secondsLeft = (): number => Math.max(0, Math.ceil(timeout - (performance.now() - began) / 1000));
  const seen = new Set<string>();
  let exists = false;
  let work: string | null = null;
  let told = { what: "", at: 0 };

  const tell = (what: string): null => {
    const at = performance.now();
    if (told.what === what && at - told.at < progressEvery) return null;
    say(`Waiting for ${what}, at most ${secondsLeft()} s`);
    told = { what, at };
    return null;
  };
  const look = async (): Promise<Drained | null> => {
    // Asked each time: a restarted store may have forgotten it, and another drain may have withdrawn it.
    await deps.instances.askToDrain(name, secondsLeft() + flagMargin);
    const { living, jobs, turns, isAlive, isUnconfirmed } = await read(deps, name);
    const counts = [
      ...(jobs.length === 0 ? [] : [jobList(jobs)]),
      ...(turns === 0 ? [] : [turnCount(turns)]),
    ];
    work = counts.length === 0 ? null : counts.join(" and ");
    exists ||= isAlive || work !== null;
    for (const id of jobs) seen.add(id);
    if (work !== null || isUnconfirmed) return tell(work ?? `${name} to take no new jobs`);
    if (!exists) return { outcome: "absent", living };
    return { outcome: "drained", jobs: [...seen], seconds: (performance.now() - began) / 1000 };
  };
  const lookAgain = (): Promise<Drained | null> =>
    look().catch((error: unknown) => {
      if (error instanceof ServiceError && error.code === "store_unavailable")
        return tell("the key-value store");
      throw error;
    });
  const withdraw = (): Promise<boolean> =>
    deps.instances.askToDrain(name, 0).then(
      () => true,
      () => false,
    );

  try {
    const pauses = { first: interval, longest: interval, deadline: began + timeout * 1000 };
    const end = await poll(lookAgain, { ...pauses, signal });
    if (end === null) return { outcome: "late", left: work };
    await withdraw();
    return end;
  } catch (error) {
    const withdrawn = await withdraw();
    if (signal.aborted) return { outcome: "interrupted", withdrawn };
    throw error;
  }
};

/** How many jobs, and which. */
export const jobList = (ids: readonly string[]): string =>
  `${ids.length} ${ids.length === 1 ? "job" : "jobs"} (${ids.join(", ")})`;

const turnCount = (turns: number): string => `${turns} ${turns === 1 ? "turn" : "turns"}`;

/** What the store knows of the instance. `isUnconfirmed`: it lives and has not said yet that it accepts and runs nothing. */
const read = async ({ store, instances }: Dependencies, name: string) => {
  // Its report first: once it says that it claims no more, the runs found afterwards are the last.
  const all = await instances.list();
  const living = all.map((each) => each.name);
  const self = all.find((each) => each.name === name);
  const runs = (await store.unsettled()).filter(({ podName }) => podName === name).map(({ id }) => id);
  if (self !== undefined) {
    const { draining, running, turns } = self;
    return { living, jobs: runs, turns, isAlive: true, isUnconfirmed: !draining || running + turns > 0 };
  }
  // A lost instance cleans up ended jobs at its next start. What counts as running may really run, on a machine that
  // is cut off.
  const records = await Promise.all(runs.map((id) => store.get(id)));
  const jobs = runs.filter((_, index) => records[index]?.status === "running");
  return { living, jobs, turns: 0, isAlive: false, isUnconfirmed: false };
};

type FinishDependencies = {
  worker: Pick<Worker, "runningCount" | "idle">;
  agentMode: { counts: () => { turns: number }; idle: (signal: AbortSignal) => Promise<void> } | null;
  log: Log;
};

/** Gives work in flight `seconds` to end by itself, unless one of the signals is aborted. */
export const finish = async (
  { worker, agentMode, log }: FinishDependencies,
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
