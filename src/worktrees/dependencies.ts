import type { Log } from "../lib/log.ts";
import type { KeyedMutex } from "../lib/keyed-mutex.ts";
import type { Repos } from "../repos/repos.ts";
import type { JobStore } from "../store/job-store.ts";
import type { WorktreeStore } from "../store/worktree-store.ts";

/** What the functions of this room work with. */
export type Dependencies = {
  records: WorktreeStore;
  jobs: Pick<JobStore, "usesOfWorktree" | "update" | "get">;
  /** Whether another instance holds its lease. */
  isAlive: (podName: string) => Promise<boolean>;
  repos: Repos;
  /** Cancels a job, with a reason for its owner; resolves when its agent is gone and its work is saved, or rejects when the signal aborts. */
  endJob: (jobId: string, reason: string, signal: AbortSignal) => Promise<void>;
  /** Keeps jobs out of a worktree until it is disposed of; null: a job has just begun in it. */
  reserve: (worktreeId: string) => Disposable | null;
  /** Ends what a dead instance left running for a preparation. */
  endOrphans: (worktreeId: string) => Promise<void>;
  /** Throws a `ServiceError` when no new work is taken: draining, or too little room on a disk. */
  admit: () => Promise<void>;
  /** What touches one worktree waits for its turn, by id: submissions to it, its removal. */
  mutex: KeyedMutex;
  settings: {
    podName: string;
    /** Whether several instances may share the records; else only what is told to go goes. */
    shared: boolean;
    /** Seconds that a job's worktree stays after its end. */
    worktreeTtl: number;
    preparedWorktreeTtl: number;
    /** Seconds that saved work is kept. */
    salvageTtl: number;
    /** Preparations that go on at once. */
    maxParallelJobs: number;
    /** Preparations that may wait. */
    maxQueuedJobs: number;
    /** Seconds that one git command may take. */
    gitTimeout: number;
  };
  now: () => Date;
  newId: () => string;
  redact: (text: string) => string;
  log: Log;
  /** Aborted when the service shuts down. */
  closing: AbortSignal;
};
