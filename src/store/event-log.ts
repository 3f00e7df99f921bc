import type { AgentEvent, JobEvent, StageEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import { isJobId } from "./job-record.ts";
import { createLogWriters, type Item } from "./log-writers.ts";
import { cutText, follow, numberOf, type Fields, type LogFormat, type Logs } from "./logs.ts";

type Event = AgentEvent | StageEvent;

/**
 * The append-only event log of each job. The log numbers the events: 1, 2, 3 … without gaps, also across restarts. The first
 * event, that the job was queued, comes from the record: it is written with the second, so that accepting a job costs no
 * other write. Readers hold a position, not a buffer: a slow or stalled one costs no memory.
 */
export type EventLog = {
  /** Appends without waiting. Events of one job stay in order. Never throws: a log that cannot be written is logged once per job. */
  append: (jobId: string, attempt: number, event: Event) => void;
  /**
   * Events with `seq > after`, then new ones, until `finish` is called for the job or the signal aborts.
   * A finished log ends at its last event. `once`: only what is there.
   */
  read: (jobId: string, after: number, signal: AbortSignal, once?: boolean) => AsyncIterable<JobEvent>;
  /** Writes what waits and ends the log and its readers. Does not wait for an unreachable store. */
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
  maxEntries: Number.MAX_SAFE_INTEGER,
  batchField: "w",
  isEnd: ({ position }) => position.endsWith("-1"),
};

type Options = {
  logs: Logs;
  /** Bytes of one job's log past which thinking and text are left out. */
  maxBytes: number;
  /** Retention of jobs, s; a log that is not removed expires a week later. */
  ttlSeconds: number;
  /** The job by its record; `over`: no event will come. Null: there is no such job. */
  describe: (jobId: string) => Promise<{ createdAt: string; over: boolean } | null>;
  log: Log;
  now: () => Date;
};

/** Most that waits for the store, per job, in bytes. */
const limit = { items: Infinity, size: 4 * 1024 * 1024 };

const week = 7 * 86_400;

/** How often the record is asked whether more events will come, ms. */
const describeEvery = 2000;

/** Longest text of one event, characters. */
const longestText = 65_536;

export const createEventLog = (options: Options): EventLog => {
  const { logs, maxBytes, describe, log, now } = options;
  const seconds = options.ttlSeconds + week;
  const closing = new AbortController();

  const inspect = async (jobId: string) => {
    const tail = await logs.tail(jobId);
    const job = tail === null ? await describe(jobId) : null;
    return { size: tail?.size ?? 0, first: job === null ? null : queuedEvent(job.createdAt) };
  };

  const writers = createLogWriters<string>({
    logs,
    noun: "job",
    limit,
    seconds: { ended: seconds, open: seconds },
    inspect,
    encoder: () => {
      const budget = createBudget(maxBytes);
      return (events, size) => budget(events, size).map(fieldsOf);
    },
    leftOut: (newer) =>
      warningBeside(newer, "More events came than the key-value store took: some before this are left out"),
    log,
  });

  /** Whether a log without an end is complete. */
  const createIsOver = (jobId: string) => {
    let askedAt = -Infinity;
    let wasOver = false;

    return async (): Promise<boolean> => {
      if (performance.now() - askedAt < describeEvery) return false;
      const job = await describe(jobId);
      askedAt = performance.now();
      // Another instance may still be writing the last events of a job that has just ended: the second answer counts.
      if (job === null || (job.over && (wasOver || !logs.shared))) return true;
      wasOver = job.over;
      return false;
    };
  };

  return {
    append: (jobId, attempt, event) => writers.append(jobId, itemOf(now().toISOString(), attempt, event)),

    read: async function* (jobId, after, signal, once = false) {
      if (!isJobId(jobId)) return;
      // The first event of an empty log is given before it is written.
      const known = after === 0 ? await inspect(jobId).catch(() => null) : null;
      const first = known?.first ? eventOf("1-0", known.first) : null;
      if (first !== null) yield first;
      const entries = follow({
        logs,
        id: jobId,
        after: first === null ? `${after}-0` : "1-0",
        isWritten: () => writers.isIdle(jobId),
        isOver: createIsOver(jobId),
        once,
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

const queuedEvent = (at: string): Fields =>
  fieldsOf(itemOf(at, 0, { type: "stage", stage: "queued", detail: null }).value);

const eventOf = (position: string, fields: Fields): JobEvent | null => {
  const at = fields.indexOf("e");
  if (at === -1) return null;
  try {
    return {
      seq: numberOf(position),
      ...(JSON.parse(fields[at + 1] ?? "") as Omit<JobEvent, "seq">),
    } as JobEvent;
  } catch {
    // A damaged event must not hide the others.
    return null;
  }
};

/** An event as JSON without its number; its texts are shortened. */
const itemOf = (at: string, attempt: number, event: Event): Item<string> => {
  const value = JSON.stringify({ at, attempt, ...shorten(event) });
  return { value, size: value.length, level: levelOf(event) };
};

/** A warning with the time and attempt of another event. */
const warningBeside = (event: string, message: string): Item<string> => {
  const { at, attempt } = JSON.parse(event) as { at: string; attempt: number };
  return itemOf(at, attempt, { type: "warning", message });
};

/**
 * Bounds what one job writes: past `maxBytes` thinking and text are left out, past four times that everything but stages,
 * the end and the first hundred warnings and results. Each adds one warning to the log.
 */
const createBudget = (maxBytes: number) => {
  let warned = 0;
  let repeatable = 0;

  /** The events to write to a log of `before` bytes. */
  return (events: readonly Item<string>[], before: number): string[] => {
    let size = before;
    return events.flatMap(({ value, level: given }) => {
      // A broken agent repeats them without end.
      const level = given === 2 && (repeatable += 1) > mostRepeated ? 1 : given;
      const least = size <= maxBytes ? 0 : size <= maxBytes * 4 ? 1 : 2;
      const written = level >= least ? [value] : [];
      if (least > warned) {
        warned = least;
        const what = least === 1 ? "thinking and text" : "all but stages and what ends the run";
        const message = `The event log has reached ${size} bytes: from here on ${what} is left out`;
        written.unshift(warningBeside(value, message).value);
      }
      for (const json of written) size += Buffer.byteLength(json);
      return written;
    });
  };
};

/** Warnings and results of one job that are written beyond the limit. */
const mostRepeated = 100;

const levelOf = ({ type }: Event): Item<string>["level"] => {
  if (type === "thinking" || type === "text" || type === "block_end") return 0;
  if (type === "warning" || type === "result") return 2;
  return ["stage", "exited", "started"].includes(type) ? 3 : 1;
};

/** The event with texts of at most 65,536 characters. */
export const shorten = (event: Event): Event => {
  if ("content" in event) return { ...event, content: cutText(event.content, longestText) };
  if ("text" in event) return { ...event, text: cutText(event.text, longestText) };
  if (event.type !== "tool_use") return event;
  const input = JSON.stringify(event.input) ?? "null";
  return input.length <= longestText
    ? event
    : { ...event, input: { truncated: cutText(input, longestText) } };
};
