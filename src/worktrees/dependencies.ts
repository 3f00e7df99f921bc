import type { Log } from "../lib/log.ts";
import type { Repos } from "../repos/repos.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Locks } from "../store/locks.ts";
import type { WorktreeStore } from "../store/worktree-store.ts";

export type Dependencies = {
  records: WorktreeStore;
  jobs: Pick<JobStore, "usesOfWorktree" | "update" | "get">;
  /** Whether another instance holds its lease. */
  isAlive: (podName: string) => Promise<boolean>;
  repos: Repos;
  /** Cancels a job. Resolves when its agent has ended and its work is saved; rejects when the signal aborts. */
  endJob: (jobId: string, reason: string, signal: AbortSignal) => Promise<void>;
  /** Across all instances; `lockOf` names them. */
  locks: Locks;
  /** Ends the processes that a lost instance left running for a preparation. */
  endOrphans: (worktreeId: string) => Promise<void>;
  /** Throws a `ServiceError` when no new work is accepted: draining, or too little disk space. */
  admit: () => Promise<void>;
  settings: {
    podName: string;
    /** Whether other instances may share the records. If not, a worktree is removed only on request or by its TTL. */
    shared: boolean;
    /** Seconds that a job's worktree stays after its end. */
    worktreeTtl: number;
    preparedWorktreeTtl: number;
    /** Seconds that salvage refs stay. */
    salvageTtl: number;
    /** Preparations at once. */
    maxParallelJobs: number;
    /** Preparations that may wait. */
    maxQueuedJobs: number;
    /** Longest git command, seconds. */
    gitTimeout: number;
  };
  now: () => Date;
  newId: () => string;
  redact: (text: string) => string;
  log: Log;
  closing: AbortSignal;
};
