import type { AgentEvent, JobEvent, StageEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import { createBudget, waitingEvent, warningBeside } from "./event-budget.ts";
import { follow } from "./follow.ts";
import { createLogWriters } from "./log-writers.ts";
import { numberOf, type Fields, type LogFormat, type Logs } from "./logs.ts";
import { isJobId } from "./job-record.ts";

type Event = AgentEvent | StageEvent;

/**
 * The append-only event log of each job. Numbers are given by the log: 1, 2, 3 … without gaps, also across restarts.
 * The first event is that the job was queued, as its record says: written with the second, so that accepting a job costs
 * no other write. Readers hold a position, not a buffer: a slow or stalled one costs no memory.
 */
export type EventLog = {
  /** Appends without waiting. Events of one job keep their order. Never throws: a log that cannot be written is warned of once per job. */
  append: (jobId: string, attempt: number, event: Event) => void;
  /**
   * Events with `seq > after`, then those to come, until `finish` is called for the job or the signal aborts.
   * Finished logs end at their last event.
   */
  read: (jobId: string, after: number, signal: AbortSignal) => AsyncIterable<JobEvent>;
  /** No event follows: writes what waits, ends the readers, forgets the job. While the store is away nobody waits for it. */
  finish: (jobId: string) => Promise<void>;
  /** Deletes the log of a job. */
  remove: (jobId: string) => Promise<void>;
  close: () => Promise<void>;
};

/** `e` is the event as JSON without its number. */
export const eventLogFormat: LogFormat = {
  key: "job-events",
  topic: "events",
  numbered: true,
  most: Number.MAX_SAFE_INTEGER,
  batchField: "w",
  isEnd: ({ position }) => position.endsWith("-1"),
};

type Options = {
  logs: Logs;
  /** Bytes of one job's log past which thinking and text are left out. */
  maxBytes: number;
  /** Seconds that a job is kept; a log that nobody removes goes a week after that. */
  ttlSeconds: number;
  /** What the record says; `over`: no event is to come any more. Null: there is no such job. */
  describe: (jobId: string) => Promise<{ createdAt: string; over: boolean } | null>;
  log: Log;
  now: () => Date;
};

/** Most that waits for the store, per job, bytes. */
const mostWaiting = { items: Infinity, size: 4 * 1024 * 1024 };

const week = 7 * 86_400;

/** How often the record is asked whether anything is still to come, ms. */
const describeEvery = 2000;

export const createEventLog = (options: Options): EventLog => {
  const { logs, maxBytes, describe, log, now } = options;
  const seconds = options.ttlSeconds + week;
  const closing = new AbortController();

  /** The size of a log in bytes, and what it begins with where it is empty. */
  const look = async (jobId: string) => {
    const tail = await logs.tail(jobId);
    const job = tail === null ? await describe(jobId) : null;
    return { size: tail?.size ?? 0, first: job === null ? null : firstOf(job.createdAt) };
  };

  const writers = createLogWriters<string>({
    logs,
    noun: "job",
    most: mostWaiting,
    seconds: { ended: seconds, open: seconds },
    look,
    encoder: () => {
      const budget = createBudget(maxBytes);
      return (events, size) => budget(events, size).map(fieldsOf);
    },
    leftOut: (newer) =>
      warningBeside(newer, "More events came than the key-value store took: some before this are left out"),
    log,
  });

  /** Says whether a reader that has nothing more to read may leave a log without an end. */
  const createVerdict = (jobId: string) => {
    let asked = -Infinity;
    let saidOver = false;

    return async (): Promise<boolean> => {
      if (performance.now() - asked < describeEvery) return false;
      const job = await describe(jobId);
      asked = performance.now();
      // The job may have ended a moment ago, and its last events be on their way from another instance: they get the time
      // until the record is asked again.
      if (job === null || (job.over && (saidOver || !logs.shared))) return true;
      saidOver = job.over;
      return false;
    };
  };

  return {
    append: (jobId, attempt, event) =>
      writers.append(jobId, waitingEvent(now().toISOString(), attempt, event)),

    read: async function* (jobId, after, signal) {
      if (!isJobId(jobId)) return;
      // What an empty log will begin with is told before it is written.
      const known = after === 0 ? await look(jobId).catch(() => null) : null;
      const first = known?.first ? eventOf("1-0", known.first) : null;
      if (first !== null) yield first;
      const entries = follow({
        logs,
        id: jobId,
        after: first === null ? `${after}-0` : "1-0",
        isWritten: () => writers.isIdle(jobId),
        isOver: createVerdict(jobId),
        signal: AbortSignal.any([signal, closing.signal]),
      });
      for await (const { position, fields } of entries) {
        const event = eventOf(position, fields);
        if (event !== null) yield event;
      }
    },

    finish: writers.end,

    remove: async (jobId) => {
      if (!isJobId(jobId)) return;
      writers.drop(jobId);
      await logs.remove(jobId);
    },

    close: async () => {
      closing.abort();
      await writers.close();
    },
  };
};

const fieldsOf = (json: string): Fields => ["e", json];

const firstOf = (at: string): Fields =>
  fieldsOf(waitingEvent(at, 0, { type: "stage", stage: "queued", detail: null }).value);

const eventOf = (position: string, fields: Fields): JobEvent | null => {
  const at = fields.indexOf("e");
  if (at === -1) return null;
  try {
    return {
      seq: numberOf(position),
      ...(JSON.parse(fields[at + 1] ?? "") as Omit<JobEvent, "seq">),
    } as JobEvent;
  } catch {
    // An event that is not JSON was damaged outside of us; the others still tell their story.
    return null;
  }
};
