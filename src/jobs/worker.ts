import { setTimeout as delay } from "node:timers/promises";
import type { Job } from "../contract/job.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import type { EventLog } from "../store/event-log.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import type { Execute, Interruption, Outcome, Run } from "./execute.ts";
import { endPatch } from "./jobs.ts";
import { maskEvents } from "./mask-events.ts";
import type { Bell } from "../lib/bell.ts";
import { takeStep, type Trigger } from "./state.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
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

/**
 * Works on one job after another (the queue decides how many at once): claims the record, runs it, writes how it
 * ended. Jobs of the same agent session or worktree never overlap.
 */
export const createWorker = (deps: Dependencies) => {
  const { store, events, settlements, now, log } = deps;
  const running = new Map<string, { controller: AbortController; done: Promise<void> }>();
  const busy = new Set<string>();
  const stopping = new AbortController();

  /** Handed to the queue. */
  const work = async (id: string): Promise<"done" | "later"> => {
    const claimed = await inOrder(() => tryClaim(id));
    if (claimed === "later" || claimed === null) return claimed ?? "done";
    try {
      await runClaimed(claimed.record);
      return "done";
    } finally {
      for (const need of claimed.needs) busy.delete(need);
    }
  };

  let lastClaim: Promise<unknown> = Promise.resolve();

  /** One claim after another: jobs start in the order in which they are handed out. */
  const inOrder = <Value>(step: () => Promise<Value>): Promise<Value> => {
    const result = lastClaim.then(step, step);
    lastClaim = result.catch(() => undefined);
    return result;
  };

  /** The claimed job; null: there is nothing to do any more; later: what it needs is in use. */
  const tryClaim = async (id: string): Promise<{ record: JobRecord; needs: string[] } | "later" | null> => {
    const queued = await store.get(id);
    // Once the service stops no run begins any more: the next start takes the job up.
    if (queued === null || queued.status !== "queued" || stopping.signal.aborted) return null;
    const needs = needsOf(queued);
    if (needs.some((need) => busy.has(need))) return "later";
    for (const need of needs) busy.add(need);
    let record: JobRecord | null = null;
    try {
      record = await claim(queued);
      return record === null ? null : { record, needs };
    } finally {
      if (record === null) for (const need of needs) busy.delete(need);
    }
  };

  const claim = (queued: JobRecord): Promise<JobRecord | null> => {
    const at = now();
    if (Date.parse(queued.created_at) + queued.ttl_seconds * 1000 <= at.getTime())
      return Promise.resolve(null);
    const attempt = queued.attempt + 1;
    return takeStep(store, {
      id: queued.id,
      trigger: "claim",
      attempt: queued.attempt,
      patch: (record) => ({
        started_at: at.toISOString(),
        pod_name: deps.instance.podName,
        instance_epoch: deps.instance.epoch,
        attempt,
        unsettled: true,
        process: null,
        pid: null,
        stages: [...record.stages, { stage: "claimed", at: at.toISOString(), attempt }],
      }),
    });
  };

  const runClaimed = async (record: JobRecord): Promise<void> => {
    const controller = new AbortController();
    const finished = Promise.withResolvers<void>();
    running.set(record.id, { controller, done: finished.promise });
    events.append(record.id, record.attempt, {
      type: "stage",
      stage: "claimed",
      detail: deps.instance.podName,
    });
    try {
      // A cancel between the claim and this line found no run to interrupt.
      if ((await store.get(record.id))?.status === "cancelled")
        controller.abort("cancel" satisfies Interruption);
      const outcome = await deps.execute(record, runOf(record, controller.signal)).catch(asBug(record));
      await settle(record, outcome).catch((error: unknown) => {
        log.error(
          { err: error, job: record.id },
          "the outcome of the job is not written; the next start settles it",
        );
      });
    } finally {
      running.delete(record.id);
      finished.resolve();
    }
  };

  const asBug =
    (record: JobRecord) =>
    (error: unknown): Outcome => {
      log.error({ err: error, job: record.id }, "running the job failed unexpectedly");
      const message = `Internal error: ${error instanceof Error ? error.message : String(error)}; see the service's log`;
      return { kind: "failed", patch: { failure_reason: "internal", retryable: true, error: message } };
    };

  const runOf = (record: JobRecord, signal: AbortSignal): Run => {
    const stages = [...record.stages];
    const warnings = [...record.warnings];
    const guard = { status: ["running" as const], attempt: record.attempt };
    const note = (patch: JobPatch): void => {
      store.update(record.id, guard, patch, { lazy: true }).catch((error: unknown) => {
        log.warn({ err: error, job: record.id }, "progress of the job was not noted");
      });
    };
    return {
      signal,
      stage: (stage, detail) => {
        events.append(record.id, record.attempt, { type: "stage", stage, detail: detail ?? null });
        stages.push({ stage, at: now().toISOString(), attempt: record.attempt });
        note({ stages: [...stages] });
      },
      event: maskEvents(deps.redact, (event) => events.append(record.id, record.attempt, event)),
      warn: (message) => {
        const text = deps.redact(message);
        events.append(record.id, record.attempt, { type: "warning", message: text });
        warnings.push(text);
        note({ warnings: [...warnings] });
      },
      note,
      record: async (patch) => (await store.update(record.id, guard, patch)) !== null,
    };
  };

  /**
   * Writes the outcome, however long the store is away: an outcome that is not written would be a lost job. When the service
   * stops meanwhile, the next start settles the job from what is on disk.
   */
  const settle = async (record: JobRecord, outcome: Outcome): Promise<void> => {
    const patch = { ...redactDeep(outcome.patch, deps.redact), unsettled: false };
    const ended = await persist(record, async () => {
      const written = await takeStep(store, {
        id: record.id,
        trigger: triggers[outcome.kind],
        attempt: record.attempt,
        patch: (current) => ({ ...(outcome.kind === "requeue" ? {} : endPatch(current, now())), ...patch }),
      });
      // Cancelled meanwhile: the state stays, what the run left behind is added to it.
      return (
        written ??
        (await store.update(record.id, { status: ["cancelled"], attempt: record.attempt }, addition(patch)))
      );
    });
    if (outcome.kind === "requeue" && ended?.status === "queued") return;
    events.append(record.id, record.attempt, {
      type: "stage",
      stage: "ended",
      detail: ended?.status ?? null,
    });
    await events.finish(record.id);
    settlements.ring(record.id);
    if (ended !== null) deps.onEnded(toJob(ended));
    log.info(
      { job: record.id, status: ended?.status, reason: ended?.failure_reason ?? undefined },
      "job ended",
    );
  };

  const persist = async <Value>(record: JobRecord, write: () => Promise<Value>): Promise<Value> => {
    for (let wait = 100; ; wait = Math.min(wait * 2, 5000)) {
      try {
        return await write();
      } catch (error) {
        log.error(
          { err: error, job: record.id },
          `the outcome of the job cannot be written; next try in ${wait} ms`,
        );
        if (stopping.signal.aborted) throw error;
        await delay(wait, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  };

  return {
    work,
    interrupt: (id: string): void => running.get(id)?.controller.abort("cancel" satisfies Interruption),
    /** Ends every run and waits until all have been settled. */
    stop: async (): Promise<void> => {
      stopping.abort();
      // A claim under way is a run a moment later.
      await lastClaim;
      const runs = [...running.values()];
      for (const { controller } of runs) controller.abort("shutdown" satisfies Interruption);
      await Promise.all(runs.map((run) => run.done));
    },
    isRunning: (id: string): boolean => running.has(id),
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

const triggers = { succeeded: "succeed", failed: "fail", requeue: "requeue" } as const satisfies Record<
  Outcome["kind"],
  Trigger
>;

/** What only one job at a time may use. */
const needsOf = (record: JobRecord): string[] => [
  `worktree ${record.worktree_id ?? record.id}`,
  ...(record.session_id === null ? [] : [`session ${record.session_id}`]),
];

/** Of an outcome, what may be added to a job that was cancelled. */
const addition = ({
  failure_reason: _reason,
  retryable: _retryable,
  error: _error,
  ...patch
}: JobPatch): JobPatch => patch;
