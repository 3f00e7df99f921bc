import { setTimeout as delay } from "node:timers/promises";
import type { Job, JobStatus } from "../contract/job.ts";
import type { Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import type { EventLog } from "../store/event-log.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Lock, Locks } from "../store/locks.ts";
import type { Execute, Interruption, Outcome } from "./execute.ts";
import { claimed } from "./claim.ts";
import { createRun } from "./run.ts";
import { announceEnd, writeOutcome, type Settled } from "./settle.ts";
import type { Spool, Spooled } from "./spool.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
  /** Keeps jobs of one agent session apart, on whatever instance they run. */
  locks: Locks;
  spool: Spool;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  execute: Execute;
  /** Hears of each job that this worker has brought to its end. */
  onEnded: (job: Job) => void;
  instance: { podName: string; epoch: string };
  now: () => Date;
  redact: Redactor;
  log: Log;
};

/** A run of this instance. */
export type OwnRun = { id: string; attempt: number; retryLost: boolean };

type Entry = OwnRun & { controller: AbortController; done: Promise<void> };

/**
 * Works on one job after another (the queue decides how many at once): claims the record, runs it, writes how it
 * ended. Jobs of the same agent session or worktree never overlap.
 */
export const createWorker = (deps: Dependencies) => {
  const { store, events, settlements, now, log } = deps;
  const running = new Map<string, Entry>();
  const busy = new Set<string>();
  /** Of what is in use by runs that are over but for writing their outcome: when it is free. */
  const endings = new Map<string, Promise<unknown>>();
  /** Outcomes that the store did not take at once, and for which no slot waits. */
  const overdue = new Set<Promise<unknown>>();
  const stopping = new AbortController();

  /** Handed to the queue. */
  const work = async (id: string, hint: string | null = null): Promise<"done" | "later"> => {
    const turn = takeTurn();
    try {
      const claim = await underWay(tryClaim(id, hint, turn.leave));
      if (claim === "later" || claim === null) return claim ?? "done";
      // Claims go on side by side; what they claimed begins in the order in which it was handed out.
      await turn.comes;
      const run = runClaimed(claim.record, claim.entry);
      turn.leave();
      return await conclude(claim, await run);
    } finally {
      turn.leave();
    }
  };

  const conclude = async (claim: Claim, outcome: Outcome): Promise<"done" | "later"> => {
    const ending = ended(claim, outcome);
    // A job that is to be run again keeps its place in the queue; of any other the outcome is written while its slot works
    // on the next one already.
    return outcome.kind === "requeue" && (await ending) === "queued" ? "later" : "done";
  };

  /** Writes the outcome, then gives back what the run held. Never rejects. Resolves to the state that the job has then; null: unknown. */
  const ended = ({ record, needs, entry }: Claim, outcome: Outcome): Promise<JobStatus | null> => {
    const finish = async (): Promise<JobStatus | null> => {
      const status = await settle(record, outcome).catch((err: unknown) => {
        log.error({ err, job: record.id }, "the outcome of the job is not written; the next start does it");
        return null;
      });
      entry.finish();
      await giveBack(needs).catch((err: unknown) => {
        log.debug({ err, job: record.id }, "the lock on the job's session lapses by itself");
      });
      return status;
    };
    const ending = finish().finally(() => {
      for (const name of needs.names) if (endings.get(name) === ending) endings.delete(name);
    });
    for (const name of needs.names) endings.set(name, ending);
    return ending;
  };

  const claims = new Set<Promise<unknown>>();
  let lastTurn: Promise<unknown> = Promise.resolve();

  /** `comes` when those that were handed out before have begun, or have left. */
  const takeTurn = () => {
    const comes = lastTurn;
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    lastTurn = Promise.all([comes, left]);
    return { comes, leave };
  };

  /** Whoever stops must wait for it: a claim under way is a run a moment later. */
  const underWay = <Value>(claim: Promise<Value>): Promise<Value> => {
    claims.add(claim);
    return claim.finally(() => claims.delete(claim));
  };

  /** The claimed job; null: there is nothing to do any more; later: what it needs is in use. */
  const tryClaim = async (
    id: string,
    hint: string | null,
    leaveTurn: () => void,
  ): Promise<Claim | "later" | null> => {
    if (overdue.size > 0) leaveTurn();
    if (!(await hasSlot())) return "later";
    const hinted = hint === null ? null : store.recall(id, hint);
    const claim = hinted === null ? null : await claimAs(hinted, leaveTurn);
    // What was hinted at may be out of date: there is nothing to do only when the record says so.
    return claim ?? (await claimAs(await store.get(id), leaveTurn));
  };

  const claimAs = async (found: JobRecord | null, leaveTurn: () => void): Promise<Claim | "later" | null> => {
    // Once the service stops no run begins any more: the next start takes the job up.
    if (found === null || stopping.signal.aborted) return null;
    const isClaimed = wasClaimed(found);
    if (found.status !== "queued" && !isClaimed) return null;
    // Another instance's queue is the right one for it.
    if (found.bound_to !== null && found.bound_to !== deps.instance.podName) return null;
    const awaited = needsOf(found).flatMap((name) => endings.get(name) ?? []);
    if (awaited.length > 0) {
      leaveTurn();
      await Promise.all(awaited);
    }
    const needs = await takeNeeds(found);
    if (needs === null) return "later" as const;
    // Known before it is claimed: a cancel that comes in the same moment must find the run.
    const entry = register(found, isClaimed ? found.attempt : found.attempt + 1);
    let record: JobRecord | null = null;
    try {
      record = isClaimed ? found : await claimed(store, found, { instance: deps.instance, at: now() });
      if (record?.status === "cancelled") entry.controller.abort("cancel" satisfies Interruption);
      return record === null ? null : { record, needs, entry };
    } finally {
      if (record === null) {
        entry.finish();
        await giveBack(needs);
      }
    }
  };

  /** An outcome that the store does not take keeps one slot from beginning more, so that outcomes do not pile up. */
  const hasSlot = async (): Promise<boolean> => {
    const [outcome] = overdue;
    if (outcome === undefined) return true;
    overdue.delete(outcome);
    const given = delay(patience, false, { ref: false });
    const written = await Promise.race([outcome.then(() => true), given]);
    if (!written) overdue.add(outcome);
    return written;
  };

  /** Claimed by us without our hearing of it, as the store went away before it answered: the run begins, or ends, now. */
  const wasClaimed = ({ id, status, unsettled, process, instance_epoch }: JobRecord): boolean =>
    (status === "running" || status === "cancelled") &&
    unsettled &&
    process === null &&
    instance_epoch === deps.instance.epoch &&
    !running.has(id);

  const register = (queued: JobRecord, attempt: number) => {
    const finished = Promise.withResolvers<void>();
    const entry = {
      id: queued.id,
      attempt,
      retryLost: queued.retry_lost === true,
      controller: new AbortController(),
      done: finished.promise,
    };
    running.set(queued.id, entry);
    const finish = (): void => {
      if (running.get(queued.id) === entry) running.delete(queued.id);
      finished.resolve();
    };
    return { ...entry, finish };
  };

  /** Null: something that it needs is in use. */
  const takeNeeds = async (queued: JobRecord): Promise<Needs | null> => {
    const names = needsOf(queued);
    if (names.some((name) => busy.has(name))) return null;
    for (const name of names) busy.add(name);
    let lock: Lock | null = null;
    try {
      if (queued.session_id !== null) {
        lock = await deps.locks.take(`session ${queued.session_id}`);
        if (lock === null) return null;
      }
      return { names, lock };
    } finally {
      if (queued.session_id !== null && lock === null) for (const name of names) busy.delete(name);
    }
  };

  const giveBack = async ({ names, lock }: Needs): Promise<void> => {
    for (const name of names) busy.delete(name);
    await lock?.release();
  };

  /** Never rejects. */
  const runClaimed = async (record: JobRecord, { controller }: Entry): Promise<Outcome> => {
    events.begin(record.id, record.created_at);
    events.append(record.id, record.attempt, {
      type: "stage",
      stage: "claimed",
      detail: deps.instance.podName,
    });
    const run = createRun(deps, record, controller.signal);
    return await deps.execute(record, run).catch(asBug(record));
  };

  const asBug =
    (record: JobRecord) =>
    (error: unknown): Outcome => {
      log.error({ err: error, job: record.id }, "running the job failed unexpectedly");
      const message = `Internal error: ${error instanceof Error ? error.message : String(error)}; see the service's log`;
      return { kind: "failed", patch: { failure_reason: "internal", retryable: true, error: message } };
    };

  /**
   * Writes the outcome, however long the store is away: an outcome that is not written would be a lost job. When the service
   * stops meanwhile, the next start writes it from the spool.
   */
  const settle = async (record: JobRecord, { kind, patch }: Outcome): Promise<JobStatus | null> => {
    const { id, attempt } = record;
    const outcome = { kind, patch: redactDeep(patch, deps.redact) };
    const settled = await persist({ id, attempt, at: now().toISOString(), outcome });
    if (settled?.announce !== true) return settled?.record.status ?? null;
    const { record: final } = settled;
    // The slot is free before the last event is on the disk.
    void announceEnd({ events, settlements }, final);
    deps.onEnded(toJob(final));
    log.info({ job: id, status: final.status, reason: final.failure_reason ?? undefined }, "job ended");
    return final.status;
  };

  const persist = async (spooled: Spooled): Promise<Settled | null> => {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    try {
      return await persistSometime(spooled, () => overdue.add(over));
    } finally {
      overdue.delete(over);
      resolve();
    }
  };

  const persistSometime = async (spooled: Spooled, onFailure: () => void): Promise<Settled | null> => {
    for (let wait = 100; ; wait = Math.min(wait * 2, 2000)) {
      try {
        const written = await writeOutcome(store, spooled, { again: wait > 100 });
        if (wait > 100) await deps.spool.drop(spooled);
        return written;
      } catch (error) {
        if (wait === 100) {
          log.warn(
            { err: error, job: spooled.id },
            "the outcome of the job cannot be written at present; it is kept on disk and tried again",
          );
          onFailure();
          await deps.spool.keep(spooled);
        }
        if (stopping.signal.aborted) throw error;
        await delay(wait, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  };

  return {
    work,
    /** Ends the run of a job for this reason, if there is one here. */
    interrupt: (id: string, reason: Interruption = "cancel"): void =>
      running.get(id)?.controller.abort(reason satisfies Interruption),
    /** Resolves when no run is left, or the signal aborts. */
    idle: async (signal: AbortSignal): Promise<void> => {
      const { promise: enough, resolve } = Promise.withResolvers<void>();
      if (signal.aborted) return;
      signal.addEventListener("abort", () => resolve(), { once: true });
      await Promise.allSettled(claims);
      while (running.size > 0 && !signal.aborted) {
        await Promise.race([enough, Promise.all([...running.values()].map((run) => run.done))]);
      }
    },
    /** Ends every run and waits until all have been settled. */
    stop: async (): Promise<void> => {
      stopping.abort();
      await Promise.allSettled(claims);
      const runs = [...running.values()];
      for (const { controller } of runs) controller.abort("shutdown" satisfies Interruption);
      await Promise.all(runs.map((run) => run.done));
    },
    runs: (): OwnRun[] => [...running.values()],
    /** Keeps jobs out of a worktree until it is disposed of; null: a job uses it. */
    reserveWorktree: (worktreeId: string): Disposable | null => {
      const need = `worktree ${worktreeId}`;
      if (busy.has(need)) return null;
      busy.add(need);
      return { [Symbol.dispose]: () => void busy.delete(need) };
    },
    runningCount: (): number => running.size,
  };
};

export type Worker = ReturnType<typeof createWorker>;

/** How long a slot waits for an outcome before it lets others have the job that it was given, ms. */
const patience = 2000;

type Needs = { names: string[]; lock: Lock | null };

type Claim = { record: JobRecord; needs: Needs; entry: Entry & { finish: () => void } };

/** What only one job at a time may use. */
const needsOf = (record: JobRecord): string[] => [
  `worktree ${record.worktree_id ?? record.id}`,
  ...(record.session_id === null ? [] : [`session ${record.session_id}`]),
];
