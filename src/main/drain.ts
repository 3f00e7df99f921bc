import type { Settings } from "../config/variables.ts";
import { connectKv } from "../kv/connect.ts";
import type { Log } from "../lib/log.ts";
import { inKv, requireFormat } from "../store/format.ts";
import { createRedisInstances, type Instances } from "../store/instances.ts";
import { createJobStore, jobKind, type JobStore } from "../store/job-store.ts";
import { openRedisRecords } from "../store/redis-records.ts";
import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Worker } from "../jobs/worker.ts";

type Named = Pick<Settings, "kvOptionsFile" | "kvKeyPrefix" | "podName" | "instanceLease"> & {
  kvUrl: string;
};
type Request = { timeout: number; signal: AbortSignal; say: (sentence: string) => void };

/**
 * Asks the instance of this name to accept no new jobs and waits until it runs none, at most `timeout` seconds. Loads
 * only the store: shutdown hooks, which have little time, run it.
 * @throws Error with a sentence for the operator when the store cannot be used
 */
export const drainInstance = async (
  { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, podName, instanceLease }: Named,
  { timeout, signal, say }: Request,
): Promise<Drained> => {
  const patience = Math.min(timeout * 1000, longestConnect);
  const kv = await connectKv({ url, optionsFile, prefix, log: silent, signal, patience });
  try {
    await requireFormat(inKv(kv), { mark: false });
    const records = openRedisRecords(jobKind(podName), { kv, now: kv.now, log: silent });
    const store = createJobStore(records, podName);
    const instances = createRedisInstances({
      kv,
      name: podName,
      self: null,
      leaseSeconds: instanceLease,
      log: silent,
    });
    return await untilDrained({ store, instances }, { name: podName, timeout, signal, say });
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
 * Asks an instance to accept no new jobs and waits until it runs no job and no turn, also while the store is away. Then,
 * or when interrupted, withdraws the request. After a timeout the request lapses by itself, so that no job begins just
 * before the stop.
 */
const untilDrained = async (
  { store, instances }: Dependencies,
  { name, timeout, signal, say }: Request & { name: string },
): Promise<Drained> => {
  const began = performance.now();
  const seconds = (): number => (performance.now() - began) / 1000;
  const seen = new Set<string>();
  let exists = false;
  let work: string | null = null;
  let told = { what: "", at: 0 };

  const tell = (what: string): void => {
    const at = performance.now();
    if (told.what === what && at - told.at < progressEvery) return;
    say(`Waiting for ${what}, at most ${Math.ceil(timeout - seconds())} s`);
    told = { what, at };
  };
  // Asked each time: a restarted store may have forgotten it, and another drain may have withdrawn it.
  const look = async (left: number): Promise<Reading | null> => {
    try {
      await instances.askToDrain(name, Math.ceil(left) + flagMargin);
      return await read({ store, instances }, name);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "store_unavailable") return null;
      throw error;
    }
  };
  const withdraw = (): Promise<boolean> =>
    instances.askToDrain(name, 0).then(
      () => true,
      () => false,
    );

  try {
    for (;;) {
      const left = Math.max(0, timeout - seconds());
      const found = await look(left);
      if (found !== null) {
        work = workOf(found);
        exists ||= found.alive || work !== null;
        for (const id of found.jobs) seen.add(id);
        if (work === null && !found.unconfirmed) {
          await withdraw();
          if (!exists) return { outcome: "absent", living: found.living };
          return { outcome: "drained", jobs: [...seen], seconds: seconds() };
        }
      }
      if (left === 0) return { outcome: "late", left: work };
      tell(found === null ? "the key-value store" : (work ?? `${name} to take no new jobs`));
      await delay(Math.min(interval, left * 1000), undefined, { signal });
    }
  } catch (error) {
    const withdrawn = await withdraw();
    if (signal.aborted) return { outcome: "interrupted", withdrawn };
    throw error;
  }
};

/** How many jobs, and which. */
export const jobList = (ids: readonly string[]): string =>
  `${ids.length} ${ids.length === 1 ? "job" : "jobs"} (${ids.join(", ")})`;

/** `unconfirmed`: it is alive and has not yet reported that it accepts and runs nothing. */
type Reading = { living: string[]; alive: boolean; jobs: string[]; turns: number; unconfirmed: boolean };

/** Null: it runs nothing. */
const workOf = ({ jobs, turns }: Reading): string | null => {
  const parts = [
    ...(jobs.length === 0 ? [] : [jobList(jobs)]),
    ...(turns === 0 ? [] : [`${turns} ${turns === 1 ? "turn" : "turns"}`]),
  ];
  return parts.length === 0 ? null : parts.join(" and ");
};

const read = async ({ store, instances }: Dependencies, name: string): Promise<Reading> => {
  // Its report first: once it says that it claims no more, the runs found afterwards are the last.
  const all = await instances.list();
  const living = all.map((each) => each.name);
  const self = all.find((each) => each.name === name);
  const runs = (await store.unsettled()).filter(({ podName }) => podName === name).map(({ id }) => id);
  if (self !== undefined) {
    const { draining, running, turns } = self;
    return { living, alive: true, jobs: runs, turns, unconfirmed: !draining || running + turns > 0 };
  }
  // A lost instance cleans up ended jobs at its next start. What counts as running may really run, on a machine that
  // is cut off.
  const records = await Promise.all(runs.map((id) => store.get(id)));
  const jobs = runs.filter((_, index) => records[index]?.status === "running");
  return { living, alive: false, jobs, turns: 0, unconfirmed: false };
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
