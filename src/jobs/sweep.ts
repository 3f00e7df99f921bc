import type { Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { Instances } from "../store/instances.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore, UnsettledRun } from "../store/job-store.ts";
import { endPatch } from "./end-patch.ts";
import { failLost, mayRunAgain, requeueLost } from "./lost.ts";
import type { Queue } from "./queue.ts";
import { announceEnd } from "./settle.ts";
import { takeStep } from "./state.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
  queue: Queue;
  instances: Instances;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  settings: { podName: string; instanceLease: number; lostInstanceGrace: number };
  /** When the store last came back after it had been away, ms of `performance.now()`. */
  backSince: () => number;
  now: () => Date;
  log: Log;
};

/** How old a queued job must be before its place in the queue is looked after, ms: it may just be on its way there. */
const settled = 5000;

/** How many of the oldest waiting jobs are looked after: one that has no place in the queue is the oldest before long. */
const looked = 200;

/** How often that is done, ms. */
const queueInterval = 5000;

/**
 * Does for instances that are lost what they cannot do themselves. Every instance does it: each step is a
 * compare-and-set, so that doing it twice does no harm.
 *
 * An instance counts as lost when this one has seen it without a lease for half a lease, in contact with the store all
 * the time: a store that was away, and renewals that could not be written meanwhile, must not make all of them lost.
 */
export const createSweep = (deps: Dependencies) => {
  const { store, queue, instances, settings, log } = deps;
  const missingSince = new Map<string, number>();
  let living = new Set<string>();
  let queueLookedAt = Number.NEGATIVE_INFINITY;

  const missingFor = (name: string): number => {
    const since = missingSince.get(name);
    return since === undefined ? 0 : performance.now() - Math.max(since, deps.backSince());
  };

  const isLost = (name: string): boolean => missingFor(name) >= (settings.instanceLease * 1000) / 2;

  const noteMissing = (names: Iterable<string>): void => {
    for (const name of living) missingSince.delete(name);
    for (const name of names) {
      if (!living.has(name) && !missingSince.has(name)) missingSince.set(name, performance.now());
    }
  };

  /** The lost instance cleans up after the run when it is back; what callers wait for is written now. */
  const settleRun = async (run: UnsettledRun): Promise<void> => {
    const record = await store.get(run.id);
    if (record === null || record.instance_epoch !== run.epoch) return;
    if (record.status === "cancelled") return;
    if (record.status !== "running") return;
    const neverStarted = record.process === null;
    if ((neverStarted || record.retry_lost === true) && mayRunAgain(record)) {
      await requeueLost(deps, record, { instance_epoch: null });
      return;
    }
    await failLost(deps, record, { neverStarted, patch: { unsettled: true } });
  };

  const lookAfterRuns = async (): Promise<void> => {
    const runs = (await store.unsettled()).filter(({ podName }) => podName !== settings.podName);
    noteMissing(runs.map(({ podName }) => podName));
    for (const run of runs) if (isLost(run.podName)) await settleRun(run);
  };

  const lookAfterQueue = async (): Promise<void> => {
    const old = deps.now().getTime() - settled;
    const ids = await store.ids("queued", looked);
    const records = (await Promise.all(ids.map((id) => store.get(id)))).filter((record) => record !== null);
    const waiting = records.filter(({ created_at }) => Date.parse(created_at) < old);
    noteMissing(waiting.flatMap(({ bound_to }) => bound_to ?? []));
    for (const record of waiting) if (isStranded(record)) await rescue(record);
    await queue.add(
      ...waiting
        .filter((record) => !isStranded(record))
        .map(({ id, bound_to }) => ({ id, boundTo: bound_to })),
    );
  };

  const isStranded = ({ bound_to }: JobRecord): boolean =>
    bound_to !== null && !living.has(bound_to) && missingFor(bound_to) >= settings.lostInstanceGrace * 1000;

  /** A session can go on elsewhere, from its branch; a worktree that was asked for by name is gone with its instance. */
  const rescue = async (record: JobRecord): Promise<void> => {
    const { id, bound_to: boundTo } = record;
    await queue.remove({ id, boundTo });
    if (record.request.session_id !== "") {
      const freed = await store.update(id, { status: ["queued"] }, { bound_to: null });
      if (freed !== null) await queue.add({ id, boundTo: null });
      log.info({ job: id, instance: boundTo }, "job of a lost instance's worktree may run anywhere now");
      return;
    }
    const failed = await takeStep(store, {
      id,
      trigger: "giveUp",
      patch: (current) => ({
        ...endPatch(current, deps.now()),
        failure_reason: "worktree_failed",
        retryable: false,
        error: `The instance ${boundTo ?? ""}, on whose disk the worktree is, has not been there for ${settings.lostInstanceGrace} s; prepare another worktree`,
      }),
    });
    if (failed !== null) await announceEnd(deps, failed);
  };

  const refresh = async (): Promise<void> => {
    living = new Set((await instances.list()).map(({ name }) => name));
  };

  return {
    /** Rejects when the store is away. */
    refresh,
    /** One round, to be repeated about every second. Rejects when the store is away. */
    round: async (): Promise<void> => {
      try {
        await refresh();
        await lookAfterRuns();
        if (performance.now() - queueLookedAt < queueInterval) return;
        await lookAfterQueue();
        queueLookedAt = performance.now();
      } catch (error) {
        // What was seen before may have been seen through a store that was going away.
        missingSince.clear();
        throw error;
      }
    },
    /** Whether an instance had a lease at the last look; one's own name always has. */
    isLiving: (name: string): boolean => name === settings.podName || living.has(name),
  };
};
