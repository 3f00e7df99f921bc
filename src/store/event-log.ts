import type { CheckEvent } from "../contract/check.ts";
import type { AgentEvent, JobEvent, StageEvent } from "../contract/event.ts";
import type { SetupEvent } from "../contract/setup.ts";
import type { Log } from "../lib/log.ts";
import { isJobId } from "./job-record.ts";
import { createLogBuffers, cutText, follow, type Fields, type Item, type Logs } from "./logs.ts";

type Event = AgentEvent | StageEvent | SetupEvent | CheckEvent;

type Options = {
  logs: Logs;
  /** Bytes of one job's log past which thinking and text are left out; past four times that, all but stages. */
  maxBytes: number;
  /** Retention of jobs, s; a log that is not removed expires a week later. */
  ttlSeconds: number;
  /** The job by its record; `over`: no event will come. Null: there is no such job. */
  describe: (jobId: string) => Promise<{ createdAt: string; over: boolean } | null>;
  log: Log;
  now: () => Date;
};

/** Name of the logs in the key-value store. */
export const eventLogName = "job-events";

const week = 7 * 86_400;

/** How often the record is asked whether more events will come, ms. */
const describeEvery = 2000;

/** Longest text of one event, characters. */
const longestText = 65_536;

/**
 * The append-only event log of each job. The log numbers the events: 1, 2, 3 … without gaps, also across restarts. The first
 * event, that the job was queued, comes from the record, so that accepting a job costs no other write. Readers hold a position, not a buffer: a slow or stalled one costs no memory.
 */
export const createEventLog = (options: Options) => {
  const { logs, maxBytes, describe, log, now } = options;
  const closing = new AbortController();

  const buffers = createLogBuffers({
    logs,
    noun: "job",
    limit: { text: maxBytes, all: maxBytes * 4 },
    start: () => 2,
    seconds: () => options.ttlSeconds + week,
    leftOut: ({ fields, weight }, why) => {
      const { at, attempt } = JSON.parse(fields["e"] ?? "") as { at: string; attempt: number };
      const what = weight === "text" ? "thinking and text" : "all but stages";
      const message = `${why}: from here on ${what} may be left out`;
      // It is said once, so it must not be left out itself.
      return { ...itemOf(at, attempt, { type: "warning", message }), weight: "needed" };
    },
    log,
  });

  /** Whether the record says that a log is complete. */
  const createIsOver = (jobId: string) => {
    let askedAt = -Infinity;
    let wasOver = false;

    return async (): Promise<boolean> => {
      if (!buffers.isIdle(jobId) || performance.now() - askedAt < describeEvery) return false;
      const job = await describe(jobId).catch(() => undefined);
      if (job === undefined) return false;
      askedAt = performance.now();
      // Another instance may still be writing the last events of a job that has just ended: the second answer counts.
      if (job === null || (job.over && (wasOver || !logs.shared))) return true;
      wasOver = job.over;
      return false;
    };
  };

  return {
    /** Appends without waiting, in order. Never throws: a log that cannot be written is logged once per job. */
    append: (jobId: string, attempt: number, event: Event): void =>
      buffers.append(jobId, itemOf(now().toISOString(), attempt, event)),

    /**
     * Events with `seq > after`, then new ones, until the job has ended or the signal aborts. A log of an ended job ends at
     * its last event. `once`: only what is there.
     */
    read: async function* (
      jobId: string,
      after: number,
      signal: AbortSignal,
      once = false,
    ): AsyncGenerator<JobEvent, void, void> {
      if (!isJobId(jobId)) return;
      const isOver = createIsOver(jobId);
      const job = after === 0 ? await describe(jobId).catch(() => null) : null;
      if (job !== null)
        yield { seq: 1, at: job.createdAt, attempt: 0, type: "stage", stage: "queued", detail: null };
      let hasEnded = false;
      const entries = follow({
        logs,
        id: jobId,
        // From the last event that the reader has, which may be the end of the job.
        after: Math.max(0, after - 1),
        isOver: async () => once || hasEnded || (await isOver()),
        signal: AbortSignal.any([signal, closing.signal]),
      });
      for await (const { number, fields } of entries) {
        const event = eventOf(number, fields);
        hasEnded = event?.type === "stage" && event.stage === "ended";
        if (event !== null && number > after) yield event;
      }
    },

    /** Writes what waits, after the last event of this instance. Does not wait for an unreachable store. */
    finish: buffers.flush,

    /** Deletes the log of a job. */
    remove: async (jobId: string): Promise<void> => {
      if (!isJobId(jobId)) return;
      buffers.drop(jobId);
      await logs.remove(jobId);
    },

    close: async (): Promise<void> => {
      closing.abort();
      await buffers.close();
    },
  };
};

export type EventLog = ReturnType<typeof createEventLog>;

const eventOf = (seq: number, fields: Fields): JobEvent | null => {
  try {
    return { seq, ...(JSON.parse(fields["e"] ?? "") as Omit<JobEvent, "seq">) } as JobEvent;
  } catch {
    // A damaged event must not hide the others.
    return null;
  }
};

/** An event as JSON without its number; its texts are shortened. */
const itemOf = (at: string, attempt: number, event: Event): Item => {
  const e = JSON.stringify({ at, attempt, ...shorten(event) });
  return { fields: { e }, size: Buffer.byteLength(e), weight: weightOf(event) };
};

const weightOf = ({ type }: Event): Item["weight"] => {
  if (type === "thinking" || type === "text" || type === "block_end") return "text";
  return type === "stage" || type === "exited" || type === "started" ? "needed" : "other";
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
