import { isFinal, jobStatuses, type Job, type Message, type Report, type Waiting } from "../contract/job.ts";
import type { Answer } from "../contract/answer.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";

/**
 * The stored form of a job: the job as the doors send it, and what only the service needs. The record is the truth about a
 * job; queues and indexes are derived from it.
 */
export type JobRecord = Omit<Job, "messages"> & {
  messages: StoredMessage[];
  /** Empty: not given, and the repository has not been read yet. */
  base_ref: string;
  /** Fields of the request that `Job` lacks. */
  request: {
    session_id: string;
    file_path: string;
    create_repo: boolean;
    private: boolean;
  };
  /** Digests of the caller's key with the `Idempotency-Key`, and of the body of that request. */
  idempotency: { key: string; body: string } | null;
  /** Digest of the key that submitted it; `open`: keys are not set. */
  principal: string;
  /** The start of the service that claimed the job (a UUID made at each start); null while queued. */
  instance_epoch: string | null;
  /** Identity of the agent process: it differs from that of a later process with the same `pid`. */
  process: ProcessIdentity | null;
  /** The instance that must run the job because the worktree is on its disk; null: any. */
  bound_to: string | null;
  /** The directory in which its agent session began, which names that of the transcript; null: none has begun. */
  session_cwd: string | null;
  /** Whether a lost job runs again, by its profile when it was accepted. */
  retry_lost: boolean;
  /** Whether the agent may only read, by the profile when the job was claimed; null: not claimed. */
  read_only: boolean | null;
  /** The claimed run has not been cleaned up yet; a final record may still have an agent or a worktree to clean up. */
  unsettled: boolean;
  /** The commit at which the worktree's branch began; null: no worktree yet, or an empty repository. */
  base_sha: string | null;
  /** The commit that was checked out when its first agent started; null: none was, or it has not started. */
  first_head: string | null;
  /**
   * What its agent asks, and the answer; kept until the agent has it. Its session says whether the CLI asks again. Null: there
   * is nothing.
   */
  asked: { waiting: Waiting; answer: Answer | null } | null;
  /** How often its agent was told of red checks. */
  check_round: number;
  /**
   * Its agent has ended, with this report, and its work is checked and delivered; or it is to be told of red checks (`tell`).
   * Null: its agent has not ended.
   */
  checking: { report: Report | null; tell: boolean } | null;
  /**
   * The usage limit that it met or is held for, by the digest of its credential; `waits`: how often it was parked for one,
   * `since` the first time. Null: there was none.
   */
  limit: { credential: string; waits: number; since: string } | null;
  /** How long its TTL has rested while it was held, ms; with the time until it can begin. */
  rested_ms: number;
  /** Whether a person has approved its plan. */
  plan_approved: boolean;
  /** When the present process was started for a job that had been parked; null: it has not been. */
  resumed_at: string | null;
  /** How long processes have worked on it, ms; of one that runs, as far as it was noted. */
  worked_ms: number;
  /** Whether what it cost is booked in the telemetry database; null until it has ended. */
  booked: boolean | null;
  /** When the job's worktree was removed or found missing; null while it exists. */
  worktree_removed_at: string | null;
};

/** A message as it is stored; the fields that `Message` lacks are the service's own. */
export type StoredMessage = Message & {
  /** Whether a process of the agent has got it, and may have taken it up. */
  given: boolean;
  /** Whether it is to be taken back from that process. */
  recalled: boolean;
  idempotency: JobRecord["idempotency"];
};

export const toMessage = ({ given: _g, recalled: _r, idempotency: _i, ...message }: StoredMessage): Message =>
  message;

/** Shown for a `base_ref` that was not given, until the repository has been read. */
export const presumedBase = "main";

/** The job as the doors send it. */
export const toJob = (record: JobRecord): Job => {
  const {
    request: _r,
    idempotency: _i,
    principal: _c,
    instance_epoch: _e,
    process: _p,
    bound_to: _b,
    session_cwd: _x,
    retry_lost: _l,
    read_only: _o,
    unsettled: _u,
    base_sha: _s,
    first_head: _h,
    asked: _a,
    check_round: _n,
    checking: _g,
    limit: _t,
    rested_ms: _q,
    worked_ms: _m,
    resumed_at: _d,
    plan_approved: _v,
    booked: _k,
    worktree_removed_at: _w,
    ...job
  } = record;
  return {
    ...job,
    base_ref: job.base_ref || presumedBase,
    messages: job.messages.map(toMessage),
    warnings: [...job.warnings, ...unheard(record)],
  };
};

/** A warning about messages that the job's end has overtaken. Said by who reads it: the end itself is one compare-and-set. */
const unheard = ({ id, status, messages }: JobRecord): string[] => {
  const left = messages.filter((message) => message.status === "queued" && !message.recalled);
  if (!isFinal(status) || left.length === 0) return [];
  const texts = left.map(({ text }) => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text));
  return [
    `The job ended before its agent had heard ${texts.join(", ")}: svc say ${id.slice(0, 8)} "…" continues the job with it`,
  ];
};

/** Whether it waits without a process: nothing of it runs until it goes on. */
export const isParked = ({ status, unsettled }: JobRecord): boolean => status === "running" && !unsettled;

/** Whether it was parked because its instance was lost, which has not cleaned up after it. */
export const isParkedByLoss = (record: JobRecord): boolean =>
  isParked(record) && record.instance_epoch !== null;

/**
 * From when on a job can go on that is parked or held, ms since the epoch; Infinity: when it is answered; null: it is
 * neither.
 */
export const goesOnAt = (record: JobRecord): number | null => {
  if (record.status === "queued" && record.held !== null) return Date.parse(record.held.until);
  if (!isParked(record)) return null;
  if (record.asked?.answer === null) return Infinity;
  if (record.waiting?.kind === "limit") return Date.parse(record.waiting.until);
  return Date.parse(record.created_at);
};

/** Whether a job that is parked or held can go on at a time, ms since the epoch. */
export const canGoOn = (record: JobRecord, at: number): boolean => (goesOnAt(record) ?? Infinity) <= at;

/** Until when a queued job may wait, ms since the epoch. */
export const expiresAt = ({ created_at, ttl_seconds, rested_ms }: JobRecord): number =>
  Date.parse(created_at) + ttl_seconds * 1000 + rested_ms;

/**
 * Whether it is parked when its instance is lost, and goes on where it was: it asks, its work is checked, or its next process
 * has not started.
 */
export const outlivesInstance = ({ asked, checking, resumed_at, process }: JobRecord): boolean =>
  asked !== null || checking !== null || (resumed_at !== null && process === null);

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const isJobId = (id: string): boolean => uuid.test(id);

/** The stored job, or why the text is none. */
export const parseRecord = (text: string, id: string): JobRecord | string => {
  try {
    return checkRecord(JSON.parse(text), id);
  } catch (error) {
    return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
};

const checkRecord = (value: unknown, id: string): JobRecord | string => {
  if (typeof value !== "object" || value === null) return "it holds no record";
  const record = value as JobRecord;
  if (record.id !== id) return "it holds another job than its name says";
  if (!jobStatuses.includes(record.status)) return `its status ${String(record.status)} is unknown`;
  if (Number.isNaN(Date.parse(record.created_at))) return "it has no created_at";
  if (isFinal(record.status) && record.ended_at === null) return "it has ended without ended_at";
  return record;
};
