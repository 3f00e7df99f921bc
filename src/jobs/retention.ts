import { finalStatuses, isFinal } from "../contract/job.ts";
import type { Retries } from "../lib/retries.ts";
import type { Lock } from "../store/locks.ts";
import { goesOnAt, type JobRecord } from "../store/job-record.ts";
import type { Due } from "../store/job-store.ts";
import { maxBatch } from "../store/records.ts";
import { unanswered } from "./answer.ts";
import { endJob, type Settling } from "./settle.ts";

export type Retention = Settling & {
  /** Seconds that a worktree stays after its job's end. */
  worktreeTtl: number;
  /** Removes a job's worktree, until the lock on it is lost. Must be safe to repeat. */
  removeWorktree: (record: JobRecord, lost: AbortSignal) => Promise<void>;
  removeConfig: (record: JobRecord) => Promise<void>;
  /** Books what a job cost, if that has not been done. */
  book: (record: JobRecord) => Promise<void>;
  /** Keeps jobs out of a worktree until disposed; null: somebody else has it. */
  lockWorktree: (worktreeId: string) => Promise<Lock | null>;
  /** Where a job's worktree is: on this instance's disk, on that of another living one, or on none that can be reached. */
  locationOf: (record: JobRecord) => "here" | "other" | "lost";
  /** Shared by all rounds. */
  retries: Retries;
};

/** One round: expires jobs that waited too long, and removes worktrees and records whose time is over. */
export const applyRetention = async (deps: Retention, signal: AbortSignal): Promise<void> => {
  const { retries, log } = deps;
  const now = deps.now().getTime();
  const steps: [Due, until: number, Step][] = [
    ["expired", now, expire],
    ["unanswered", now, giveUpWaiting],
    ["worktrees", now - deps.worktreeTtl * 1000, removeWorktree],
    ["removable", now, removeRecord],
  ];
  for (const [what, until, step] of steps) {
    for (const id of await dueOnes(deps, what, until)) {
      if (signal.aborted) return;
      // One job's failure must not block the others. It is retried with growing pauses.
      await step(id, deps).then(
        (left) => (left === stays ? retries.failed(id, deps.now().getTime()) : retries.succeeded(id)),
        (error: unknown) => {
          retries.failed(id, deps.now().getTime(), error);
          log.warn({ err: error, job: id }, "the job could not be tidied");
        },
      );
    }
  }
};

/** The oldest 500 whose pause is over: those that wait must not hold up the ones after them. */
const dueOnes = async ({ store, retries, now }: Retention, what: Due, until: number): Promise<string[]> => {
  const found: string[] = [];
  for (let skip = 0; ; skip += maxBatch) {
    const page = await store.due(what, until, skip);
    found.push(...page.filter((id) => retries.isDue(id, now().getTime())));
    if (page.length < maxBatch || found.length >= maxBatch) return found;
  }
};

/** What a step resolves to when another instance has to do it, or nobody can read the record. */
const stays = "stays";
type Step = (id: string, deps: Retention) => Promise<typeof stays | undefined>;

const expire: Step = async (id, deps) => {
  const expired = await endJob(deps, id, "expire", ({ ttl_seconds }) => ({
    error: `The job waited longer than its ${ttl_seconds} s; submit it again when the service is less busy`,
  }));
  if (expired === null) return stays;
  deps.log.info({ job: id }, "job expired");
  return undefined;
};

/** Its work was saved when it was parked. */
const giveUpWaiting: Step = async (id, deps) => {
  const ended = await endJob(deps, id, "fail", (record) =>
    goesOnAt(record) === Infinity && record.asked !== null ? unanswered(id, record.asked.waiting) : null,
  );
  if (ended === null) return stays;
  deps.log.info({ job: id }, "nobody has answered the job's question");
  return undefined;
};

const removeWorktree: Step = async (id, deps) => {
  const record = await deps.store.get(id);
  if (record === null || record.worktree_id === null) return stays;
  // A job that resumes the session waits in the meantime: it must not start in a directory that is being removed.
  await using lock = await deps.lockWorktree(record.worktree_id);
  if (lock === null) return undefined;
  if (await isLastIn(deps, record.worktree_id, id)) await deps.removeWorktree(record, lock.lost);
  await deps.store.update(id, { status: finalStatuses }, { worktree_removed_at: deps.now().toISOString() });
  return undefined;
};

/** False: a later job uses the worktree, which is removed with that one. One that failed before its checkout does not. */
const isLastIn = async ({ store }: Retention, worktreeId: string, id: string): Promise<boolean> => {
  for (const { jobId, status, unsettled } of (await store.usesOfWorktree(worktreeId)).toReversed()) {
    if (jobId === id) break;
    if (!isFinal(status) || unsettled || (await store.get(jobId))?.worktree_path) return false;
  }
  return true;
};

const removeRecord: Step = async (id, deps) => {
  const record = await deps.store.get(id);
  if (record === null) return stays;
  const location = deps.locationOf(record);
  // Its own instance removes it.
  if (location === "other") return stays;
  if (location === "here" && record.worktree_path !== null && record.worktree_removed_at === null) {
    await removeWorktree(id, deps);
    if ((await deps.store.get(id))?.worktree_removed_at === null) return undefined;
  }
  if (record.booked === false) await deps.book(record);
  await deps.removeConfig(record);
  await deps.events.remove(id);
  await deps.store.remove(id);
  deps.log.info({ job: id }, "job record removed");
  return undefined;
};
