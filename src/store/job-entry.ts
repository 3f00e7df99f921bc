import { isFinal, type JobStatus } from "../contract/job.ts";
import type { JobRecord } from "./job-record.ts";

/** What lists and sweeps need of a job; outputs and tasks stay where the record is. */
export type IndexEntry = {
  id: string;
  created: number;
  status: JobStatus;
  session: string | null;
  worktree: string | null;
  idempotencyKey: string | null;
  unsettled: boolean;
  /** Instance that claimed the job, and its start. */
  pod: string | null;
  epoch: string | null;
  worktreeStands: boolean;
  /** Ms since the epoch. */
  ended: number | null;
  /** When a queued job expires, or the record of a final one may be deleted; ms since the epoch, null: neither. */
  deadline: number | null;
};

export const toEntry = (record: JobRecord): IndexEntry => {
  const created = Date.parse(record.created_at);
  const ended = record.ended_at === null ? null : Date.parse(record.ended_at);
  const lifetime = record.ttl_seconds * 1000;
  const end = isFinal(record.status) ? (ended ?? created) + lifetime : null;
  return {
    id: record.id,
    created,
    status: record.status,
    session: record.session_id,
    worktree: record.worktree_id,
    idempotencyKey: record.idempotency?.key ?? null,
    unsettled: record.unsettled,
    pod: record.pod_name,
    epoch: record.instance_epoch,
    worktreeStands: record.worktree_path !== null && record.worktree_removed_at === null,
    ended,
    deadline: record.status === "queued" ? created + lifetime : end,
  };
};
