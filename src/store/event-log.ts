import type { AgentEvent, JobEvent, StageEvent } from "../contract/event.ts";

/**
 * PORT. The append-only event log of each job. Numbers are given by the log: 1, 2, 3 … without gaps, also across
 * restarts. Readers hold a position, not a buffer: a slow or stalled one costs no memory.
 */
export type EventLog = {
  /**
   * Begins the log of a job that waits, unless it has been begun: its first event is that it was queued at `at`. Written
   * with the next event or when somebody reads, so that accepting a job costs no second write; a start begins it anew.
   */
  begin: (jobId: string, at: string) => void;
  /** Says that events of the job are still to come, so that readers wait for them. Appending does so too. */
  open: (jobId: string) => void;
  /** Appends without waiting for the disk. Events of one job keep their order. Never throws: a log that cannot be written is warned of once per job. */
  append: (jobId: string, attempt: number, event: AgentEvent | StageEvent) => void;
  /**
   * Events with `seq > after`, then those to come, until `finish` is called for the job or the signal aborts.
   * Finished logs end at their last event.
   */
  read: (jobId: string, after: number, signal: AbortSignal) => AsyncIterable<JobEvent>;
  /** No event follows: flushes, ends the readers, forgets the job. */
  finish: (jobId: string) => Promise<void>;
  /** Deletes the log of a job. */
  remove: (jobId: string) => Promise<void>;
  close: () => Promise<void>;
};
