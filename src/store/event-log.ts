import { randomUUID } from "node:crypto";
import type { AgentEvent, JobEvent, StageEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import { createBacklog } from "./backlog.ts";
import { createBudget, levelOf, shorten } from "./event-budget.ts";
import { follow } from "./follow.ts";
import { createLogWriters } from "./log-writers.ts";
import { numberOf, type Fields, type LogFormat, type Logs } from "./logs.ts";
import { isJobId } from "./stored-job.ts";

type Event = AgentEvent | StageEvent;

/**
 * The append-only event log of each job. Numbers are given by the log: 1, 2, 3 … without gaps, also across restarts.
 * Readers hold a position, not a buffer: a slow or stalled one costs no memory.
 */
export type EventLog = {
  /**
   * Tells when a job was queued: its first event is that it was. Written with the next event or when somebody reads, so
   * that accepting a job costs no second write. Who was not told takes it from the record.
   */
  begin: (jobId: string, at: string) => void;
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

/** An event that waits to be written. */
type Waiting = { at: string; attempt: number; level: ReturnType<typeof levelOf>; json: string };

/** Most that waits for the store, per job, and goes to it at once; bytes. */
const mostWaiting = { values: Infinity, size: 4 * 1024 * 1024 };
const batchSize = 256 * 1024;

const week = 7 * 86_400;

/** Jobs whose beginning is remembered. */
const mostBegun = 1000;

/** How often the record is asked whether anything is still to come, ms. */
const describeEvery = 2000;

export const createEventLog = (options: Options): EventLog => {
  const { logs, maxBytes, describe, log, now } = options;
  const seconds = options.ttlSeconds + week;
  const begun = new Map<string, string>();
  const closing = new AbortController();

  const open = (jobId: string) => {
    const budget = createBudget(maxBytes);
    let isEnd = false;
    const at = begun.get(jobId);
    begun.delete(jobId);
    /** The first event, should the log be empty, and the size of the log in bytes; null: not known yet. */
    let known: { first: Fields | null; size: number } | null =
      at === undefined ? null : { first: firstOf(at), size: 0 };

    const add = (time: string, attempt: number, given: Event): void => {
      const event = shorten(given);
      const json = jsonOf(time, attempt, event);
      const level = levelOf(event);
      backlog.add({ value: { at: time, attempt, level, json }, size: json.length, level });
    };
    const onLeftOut = (newer: Waiting): void => {
      log.warn({ job: jobId }, "too many events wait for the key-value store; some are left out");
      const message = "More events came than the key-value store took: some before this are left out";
      add(newer.at, newer.attempt, { type: "warning", message });
    };
    const backlog = createBacklog<Waiting>({ most: mostWaiting, onLeftOut });

    /** What the budget lets into a log of that size. */
    const entriesOf = (waiting: readonly Waiting[], before: number): Fields[] => {
      let size = before;
      return waiting.flatMap(({ at: time, attempt, level, json }) => {
        const { isKept, warning } = budget(level, size);
        const told = warning === null ? [] : [jsonOf(time, attempt, { type: "warning", message: warning })];
        const kept = isKept ? [...told, json] : told;
        size += kept.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
        return kept.map((each): Fields => ["e", each]);
      });
    };

    return {
      add,
      end: (): void => void (isEnd = true),
      isEmpty: () => backlog.isEmpty() && !isEnd,
      take: async () => {
        known ??= await look(jobId);
        if (backlog.isEmpty() && !isEnd) return null;
        const entries = entriesOf(backlog.take(batchSize), known.size);
        const isLast = isEnd && backlog.isEmpty();
        isEnd &&= !isLast;
        return { begin: false, first: known.first, entries, isEnd: isLast, seconds };
      },
      written: (size: number): void => {
        if (known !== null) known.size = size;
        backlog.written();
      },
      clear: (): void => {
        backlog.take(Infinity);
        isEnd = false;
      },
    };
  };

  const writers = createLogWriters({ logs, open, noun: "job", log });

  const look = async (jobId: string) => {
    const tail = await logs.tail(jobId);
    return { first: tail === null ? await firstOfRecord(jobId) : null, size: tail?.size ?? 0 };
  };

  const firstOfRecord = async (jobId: string): Promise<Fields | null> => {
    const job = await describe(jobId);
    return job === null ? null : firstOf(job.createdAt);
  };

  /** Writes the first event of an empty log. */
  const writeFirst = async (jobId: string): Promise<void> => {
    const first = await firstOfRecord(jobId);
    const batch = {
      name: randomUUID(),
      again: false,
      begin: false,
      first,
      entries: [],
      isEnd: false,
      seconds,
    };
    if (first !== null) await logs.append(jobId, batch);
  };

  /** Says whether a reader that has nothing more to read may leave a log without an end. */
  const createVerdict = (jobId: string) => {
    let asked = -Infinity;
    let saidOver = false;

    return async (exists: boolean): Promise<boolean> => {
      if (performance.now() - asked < describeEvery) return false;
      const job = await describe(jobId);
      asked = performance.now();
      // The job may have ended a moment ago, and its last events be on their way from another instance: they get the time
      // until the record is asked again.
      if (job === null || (job.over && (saidOver || !logs.shared))) return true;
      saidOver = job.over;
      if (!exists && !job.over) await writeFirst(jobId);
      return false;
    };
  };

  return {
    begin: (jobId, at) => {
      begun.set(jobId, at);
      for (const oldest of begun.keys()) {
        if (begun.size <= mostBegun) break;
        begun.delete(oldest);
      }
    },

    append: (jobId, attempt, event) => {
      const { box, start } = writers.of(jobId);
      box.add(now().toISOString(), attempt, event);
      start();
    },

    read: async function* (jobId, after, signal) {
      if (!isJobId(jobId)) return;
      const entries = follow({
        logs,
        id: jobId,
        after: `${after}-0`,
        isWritten: () => writers.isIdle(jobId),
        isOver: createVerdict(jobId),
        signal: AbortSignal.any([signal, closing.signal]),
      });
      for await (const { position, fields } of entries) {
        const event = eventOf(position, fields);
        if (event !== null) yield event;
      }
    },

    finish: async (jobId) => {
      const { box, start, settled } = writers.of(jobId);
      box.end();
      start();
      await settled();
      void writers.release(jobId);
    },

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

const jsonOf = (at: string, attempt: number, event: Event): string =>
  JSON.stringify({ at, attempt, ...event });

const firstOf = (at: string): Fields => [
  "e",
  jsonOf(at, 0, { type: "stage", stage: "queued", detail: null }),
];

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
