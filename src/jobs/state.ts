import { jobStatuses, type JobStatus } from "../contract/job.ts";
import { canGoOn, expiresAt, goesOnAt, type JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";

/**
 * The life of a job.
 *
 * A job is accepted as `queued`. A worker claims it, which makes it `running` and counts one `attempt`. It ends
 * `succeeded` when the agent finished well and the steps after it (commit, push, pull request) are done, `failed` on
 * anything else. One that waits is parked: it stays `running` without a process, and a worker resumes it when
 * it can go on. One whose credential has reached a usage limit is held: it stays `queued`, and its TTL rests. A caller may cancel it until it has ended; a job that waits too long expires. When its instance is
 * lost, a job that had pushed its branch has succeeded, and one whose agent had not started (or whose profile allows
 * it) is queued again; one that waits for a worktree of a lost instance fails.
 *
 * Final states are written once: every transition is a compare-and-set on the status and, while running, on the
 * attempt, so that a late or frozen writer loses.
 */
type Trigger = "claim" | "cancel" | "expire" | "succeed" | "fail" | "requeue" | "giveUp" | "park" | "resume";

const transitions: Record<JobStatus, Partial<Record<Trigger, JobStatus>>> = {
  queued: { claim: "running", cancel: "cancelled", expire: "expired", giveUp: "failed" },
  running: {
    succeed: "succeeded",
    fail: "failed",
    cancel: "cancelled",
    requeue: "queued",
    park: "running",
    resume: "running",
  },
  succeeded: {},
  failed: {},
  cancelled: {},
  expired: {},
};

type Step = {
  id: string;
  trigger: Trigger;
  attempt?: number;
  /** Null: not this record. */
  patch: (record: JobRecord) => Omit<JobPatch, "status"> | null;
};

/** The status after a trigger. @throws Error when the table has no such transition */
export const statusAfter = ({ status }: JobRecord, trigger: Trigger): { status: JobStatus } => {
  const next = transitions[status][trigger];
  if (next === undefined) throw new Error(`no ${trigger} of a job that is ${status}`);
  return { status: next };
};

/** Takes a job one step further and returns the new record; null when its state does not allow the step (any more). */
export const takeStep = (
  store: JobStore,
  { id, trigger, attempt, patch }: Step,
): Promise<JobRecord | null> => {
  const from = jobStatuses.filter((status) => transitions[status][trigger] !== undefined);
  const guard = { status: from, ...(attempt !== undefined && { attempt }) };
  return store.update(id, guard, (record) => {
    const changes = patch(record);
    return changes === null ? null : { ...changes, ...statusAfter(record, trigger) };
  });
};

type Claimer = { instance: { podName: string; epoch: string }; at: Date };

/** Claims a queued job for this instance; null when it has expired or another claim was faster. */
export const claimed = async (store: JobStore, queued: JobRecord, { instance, at }: Claimer) => {
  if (expiresAt(queued) <= at.getTime()) return null;
  const attempt = queued.attempt + 1;
  return await takeStep(store, {
    id: queued.id,
    trigger: "claim",
    attempt: queued.attempt,
    patch: (record) => ({
      started_at: at.toISOString(),
      pod_name: instance.podName,
      instance_epoch: instance.epoch,
      attempt,
      held: null,
      unsettled: true,
      process: null,
      pid: null,
      resumed_at: null,
      checking: record.options.deliver_only === true ? record.checking : null,
      worked_ms: 0,
      stages: [...record.stages, { stage: "claimed", at: at.toISOString(), attempt }],
    }),
  });
};

/** A usage limit of a credential, until a time in ms since the epoch. */
type Limit = { credential: string; until: number };

/** Holds a queued job until a limit is over; null: it is held until then already, or not queued any more. */
export const held = (
  store: JobStore,
  { id, attempt }: JobRecord,
  { credential, until }: Limit,
  at: Date,
): Promise<JobRecord | null> =>
  store.update(id, { status: ["queued"], attempt }, (record) => {
    const before = goesOnAt(record) ?? 0;
    if (before === until && record.limit?.credential === credential) return null;
    const { waits = 0, since = at.toISOString() } = record.limit ?? {};
    return {
      held: { reason: "limit", until: new Date(until).toISOString() },
      limit: { credential, waits, since },
      // The time until `before` is in it already.
      rested_ms: record.rested_ms + until - Math.max(at.getTime(), before),
    };
  });

/** Resumes a parked job that can go on; null: it is not there any more. */
export const resumed = (
  store: JobStore,
  { id, attempt }: JobRecord,
  { instance, at }: Parameters<typeof claimed>[2],
): Promise<JobRecord | null> =>
  takeStep(store, {
    id,
    trigger: "resume",
    attempt,
    patch: (record) =>
      canGoOn(record, at.getTime())
        ? {
            pod_name: instance.podName,
            instance_epoch: instance.epoch,
            unsettled: true,
            resumed_at: at.toISOString(),
            waiting: null,
          }
        : null,
  });
