import type { Bell } from "../lib/bell.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import type { Outcome } from "./execute.ts";
import { endPatch } from "./end-patch.ts";
import type { Spooled } from "./spool.ts";
import { takeStep, type Trigger } from "./state.ts";

/** `announce`: nobody has told yet that the job has ended. */
export type Settled = { record: JobRecord; announce: boolean };

/**
 * Writes how a run ended. When the job has got its final state from somebody else meanwhile, that stays; what the run
 * left behind is added to it. Null: the job is another run's, or gone. `again`: it was tried before, and may have been
 * written then without our hearing of it.
 */
export const writeOutcome = async (
  store: JobStore,
  { id, attempt, at, outcome }: Spooled,
  { again = false }: { again?: boolean } = {},
): Promise<Settled | null> => {
  const patch = { ...outcome.patch, unsettled: false };
  const written = await takeStep(store, {
    id,
    trigger: triggers[outcome.kind],
    attempt,
    patch: (current) => ({
      ...(outcome.kind === "requeue" ? {} : endPatch(current, new Date(at))),
      ...patch,
    }),
  });
  if (written !== null) return { record: written, announce: written.status !== "queued" };
  const current = await store.get(id);
  if (current === null) return null;
  if (!current.unsettled) {
    const isWritten = again && current.attempt === attempt && current.ended_at === at;
    return isWritten ? { record: current, announce: true } : null;
  }
  const guard = { status: ["cancelled", "failed", "succeeded"] as const, attempt };
  const added = await store.update(id, guard, (then) => addition(then, patch));
  // Who called the job lost has said so; a cancelled one ends for its readers only now.
  return added === null ? null : { record: added, announce: added.status === "cancelled" };
};

type Announcement = { events: EventLog; settlements: Bell };

/** Wakes those who wait for a job that has ended, and ends its event log. */
export const announceEnd = async (
  { events, settlements }: Announcement,
  record: Pick<JobRecord, "id" | "attempt" | "status" | "created_at">,
): Promise<void> => {
  settlements.ring(record.id);
  events.begin(record.id, record.created_at);
  events.append(record.id, record.attempt, { type: "stage", stage: "ended", detail: record.status });
  await events.finish(record.id);
};

const triggers = { succeeded: "succeed", failed: "fail", requeue: "requeue" } as const satisfies Record<
  Outcome["kind"],
  Trigger
>;

/** Of an outcome, what may be added to a job that has ended otherwise. */
const addition = (current: JobRecord, patch: JobPatch): JobPatch => {
  const { failure_reason: _reason, retryable: _retryable, error: _error, ...added } = patch;
  if (current.status === "cancelled") return added;
  // Called lost, or finished after its push: what was said of it stays; where its work is must be findable.
  const { salvage_ref = current.salvage_ref, branch = current.branch } = patch;
  const { commit_sha = current.commit_sha, pr_url = current.pr_url, warnings = current.warnings } = patch;
  return { salvage_ref, branch, commit_sha, pr_url, warnings, unsettled: false };
};
