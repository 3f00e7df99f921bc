import { failureOf } from "../kv/failure.ts";
import type { Presence } from "./presence.ts";
import { type Settling, endJob, settle } from "./settle.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { QueueEntry } from "./queue.ts";
import { isFinal } from "../contract/job.ts";
import type { UnsettledRun } from "../store/job-store.ts";

type Dependencies = Settling & {
  presence: Presence;
  settings: { podName: string; lostInstanceGrace: number };
  /** This start of the instance. */
  epoch: string;
  /** Ids of jobs that this instance claims, works on or settles; null: unknown at present. */
  ownRuns: () => ReadonlySet<string> | null;
};

/** Interval at which waiting jobs are checked, ms. */
const queueInterval = 5000;

/** Acts for lost instances. Every instance does it: each step is a compare-and-set, so doing it twice does no harm. */
export const createSweep = (deps: Dependencies) => {
  const { presence } = deps;
  const each = createPerJob(deps.log);
  const runs = createRunsSweep(deps, each);
  const waiting = createQueueSweep(deps, each);
  let queueLookedAt = Number.NEGATIVE_INFINITY;

  const forgetWhenAway = (error: unknown): void => {
    // Earlier readings may come from a store that was about to become unreachable.
    if (failureOf(error) !== "unreachable") return;
    presence.forget();
    runs.forget();
  };

  return {
    /** One round, to be repeated about every second. Whether there are runs. Rejects when the store fails. */
    round: async (): Promise<boolean> => {
      try {
        await presence.refresh();
        const areRuns = await runs.checkRuns();
        if (performance.now() - queueLookedAt >= queueInterval) {
          await waiting.checkQueue();
          queueLookedAt = performance.now();
        }
        return areRuns;
      } catch (error) {
        forgetWhenAway(error);
        throw error;
      }
    },
    /** A round of an instance that shares its store with no other. Rejects when the store fails. */
    ownRound: runs.checkOwnRuns,
  };
};

/**
 * Runs steps for one job after another, so that an unreadable record does not block the others: it is warned of once.
 * Rejects when the store fails.
 */
const createPerJob = (log: Log) => {
  const warnings = createWarnOnce();
  return async <Value>(id: string, step: () => Promise<Value>): Promise<Value | null> => {
    try {
      return await step();
    } catch (err) {
      if (failureOf(err) !== "value") throw err;
      warnings.once(id, () => log.warn({ err, job: id }, "the job cannot be checked"));
      return null;
    }
  };
};

type PerJob = ReturnType<typeof createPerJob>;

/** Age at which a queued job's queue entry is checked, ms: a younger one may just be on its way there. */
const settled = 5000;

/** Waiting jobs checked in one round. */
const maxPerRound = 200;

/** Checks waiting jobs: that each has a queue entry, and that none waits for an instance for ever. */
const createQueueSweep = (deps: Dependencies, each: PerJob) => {
  const { store, queue, settings, presence, log } = deps;
  /** Where the next round begins: rounds cycle through the waiting jobs, so that none is starved. */
  let from = 0;

  const isGivenUp = (name: string): boolean =>
    !presence.isHere(name) && presence.missingFor(name) >= settings.lostInstanceGrace * 1000;

  /** The entry to add; null: nothing to do. */
  const missingEntry = async (id: string): Promise<QueueEntry | null> => {
    const record = await store.get(id);
    if (record === null || record.status !== "queued") return null;
    if (Date.parse(record.created_at) >= deps.now().getTime() - settled) return null;
    const { bound_to: boundTo } = record;
    if (boundTo === null) return { id, boundTo };
    presence.noteMissing([boundTo]);
    if (isGivenUp(boundTo)) {
      await rescue(record);
      return null;
    }
    if (!presence.isLost(boundTo)) return { id, boundTo };
    await warnOfWait(record, boundTo);
    return null;
  };

  /** Readers of the job then know what it waits for. */
  const warnOfWait = async ({ id, warnings, request }: JobRecord, name: string): Promise<void> => {
    const then = request.session_id === "" ? "it fails" : "it continues on another instance";
    const warning = `It waits for the instance ${name}, on whose disk its worktree is and which does not answer; ${then} when ${name} has been unreachable for ${settings.lostInstanceGrace} s`;
    if (warnings.includes(warning)) return;
    await store.update(id, { status: ["queued"] }, (current) =>
      current.warnings.includes(warning) ? {} : { warnings: [...current.warnings, warning] },
    );
  };

  /**
   * A session can continue on another instance, from its branch; a worktree that was asked for by name is lost with
   * its instance.
   */
  const rescue = async (record: JobRecord): Promise<void> => {
    const { id, bound_to: boundTo } = record;
    if (record.request.session_id !== "") {
      await queue.remove({ id, boundTo });
      const freed = await store.update(id, { status: ["queued"] }, { bound_to: null });
      if (freed !== null) await queue.add({ id, boundTo: null });
      log.info({ job: id, instance: boundTo }, "job of a lost instance's worktree may run anywhere now");
      return;
    }
    await endJob(deps, id, "giveUp", () => ({
      failure_reason: "worktree_failed",
      retryable: false,
      error: `The instance ${boundTo ?? ""}, on whose disk the worktree is, has not been there for ${settings.lostInstanceGrace} s; prepare another worktree`,
    }));
  };

  return {
    /** Rejects when the store fails. */
    checkQueue: async (): Promise<void> => {
      const ids = await store.ids("queued", maxPerRound, from);
      const found = await Promise.all(ids.map((id) => each(id, () => missingEntry(id))));
      await queue.add(...found.filter((entry) => entry !== null));
      from = ids.length < maxPerRound ? 0 : from + maxPerRound;
    },
  };
};

/** How long a run of this start must be unknown here, over consecutive rounds, to count as abandoned, ms. */
const unknownFor = 2000;

/** Settles abandoned runs: those of lost instances, and those of this start that this instance does not know. */
const createRunsSweep = (deps: Dependencies, each: PerJob) => {
  const { store, settings, presence } = deps;
  let unknownSince = new Map<string, number>();
  /** Lost runs of ended jobs, by id and epoch, with the time, ms, before which there is nothing to do for them. */
  let quietUntil = new Map<string, number>();

  /** The lost instance cleans up after the run when it is back; callers get the outcome now. */
  const settleLostRun = async ({ id, epoch }: UnsettledRun): Promise<void> => {
    const record = await store.get(id);
    if (record === null || record.instance_epoch !== epoch) return;
    if (isFinal(record.status)) {
      const deadline = Date.parse(record.ended_at ?? "") + record.ttl_seconds * 1000;
      if (deadline <= deps.now().getTime()) await settle(deps, record, nothingLeft);
      else quietUntil.set(keyOf({ id, epoch }), deadline);
    } else await settle(deps, record, { kind: "lost", cleaned: null });
  };

  /**
   * A run whose claim succeeded although the reply was lost, and whose queue entry another job has replaced; or whose
   * end the store has lost again.
   */
  const settleUnknownRun = async ({ id }: UnsettledRun): Promise<void> => {
    const record = await store.get(id);
    if (record === null || record.instance_epoch !== deps.epoch || isOwn(id)) return;
    // Without an epoch, a run that begins in this moment finds that it does not own the job.
    const cleaned = { requeue: record.process === null, patch: { instance_epoch: null } };
    await settle(deps, record, { kind: "lost", cleaned });
  };

  const isOwn = (id: string): boolean => deps.ownRuns()?.has(id) ?? true;

  const settleUnknown = async (runs: UnsettledRun[]): Promise<void> => {
    const mine = runs.filter(({ epoch }) => epoch === deps.epoch);
    const unknown = mine.filter(({ id }) => !isOwn(id));
    const now = performance.now();
    unknownSince = new Map(unknown.map(({ id }) => [id, unknownSince.get(id) ?? now]));
    for (const run of unknown) {
      const since = unknownSince.get(run.id) ?? now;
      if (now - since >= unknownFor) await each(run.id, () => settleUnknownRun(run));
    }
  };

  const lookAfterOthers = async (runs: UnsettledRun[]): Promise<void> => {
    presence.noteMissing(runs.map(({ podName }) => podName));
    const known = new Set(runs.map(keyOf));
    quietUntil = new Map([...quietUntil].filter(([key]) => known.has(key)));
    const now = deps.now().getTime();
    const lost = runs.filter(
      (run) => presence.isLost(run.podName) && !((quietUntil.get(keyOf(run)) ?? 0) > now),
    );
    await Promise.all(lost.map((run) => each(run.id, () => settleLostRun(run))));
  };

  return {
    /** Whether there are any. Rejects when the store fails. */
    checkRuns: async (): Promise<boolean> => {
      const runs = await store.unsettled();
      await settleUnknown(runs);
      await lookAfterOthers(runs.filter(({ podName }) => podName !== settings.podName));
      return runs.length > 0;
    },
    /** Only those of this start. Rejects when the store fails. */
    checkOwnRuns: async (): Promise<void> => await settleUnknown(await store.unsettled()),
    forget: (): void => unknownSince.clear(),
  };
};

/** There is nothing left to clean up. */
const nothingLeft = { kind: "lost", cleaned: { requeue: false, patch: {} } } as const;

const keyOf = ({ id, epoch }: Pick<UnsettledRun, "id" | "epoch">): string => `${id} ${epoch}`;
