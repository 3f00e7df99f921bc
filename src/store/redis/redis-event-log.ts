import type { StageEvent } from "../../contract/event.ts";
import type { Kv } from "../../kv/kv.ts";
import type { Bell } from "../../lib/bell.ts";
import type { Log } from "../../lib/log.ts";
import type { EventLog } from "../event-log.ts";
import { isJobId } from "../stored-job.ts";
import { createEventWriter, type EventWriter } from "./event-writer.ts";
import { followStream } from "./follow-stream.ts";

type Options = {
  kv: Kv;
  /** Of all instances; `next` resolves after a few seconds at the latest, since a ring may be lost. */
  bell: Bell;
  /** Bytes of one job's log past which thinking and text are left out. */
  maxBytes: number;
  /** Seconds that a job is kept; a log that nobody removes goes a week after that. */
  ttlSeconds: number;
  /** What the record says; `over`: no event is to come any more. Null: there is no such job. */
  describe: (jobId: string) => Promise<{ createdAt: string; over: boolean } | null>;
  log: Log;
  now: () => Date;
};

const week = 7 * 86_400;

const mostBegun = 1000;

/**
 * One stream per job, which any instance appends to and reads. The first event needs no word from the one that accepted
 * the job: who appends or reads first takes it from the record. While the store is away events wait in memory, and readers
 * wait too.
 */
export const openRedisEventLog = (options: Options): EventLog => {
  const { kv, bell, log, now, describe } = options;
  const writers = new Map<string, EventWriter>();
  /** When jobs were queued whose log this instance may write soon: those need not be asked for. */
  const begun = new Map<string, string>();
  const closing = new AbortController();
  const keyOf = (jobId: string): string => kv.key("job-events", jobId);
  const bellOf = (jobId: string): string => `events:${jobId}`;

  const first = async (jobId: string): Promise<string> => {
    const job = await describe(jobId);
    return job === null ? "" : firstLine(job.createdAt);
  };

  const createWriter = (jobId: string): EventWriter =>
    createEventWriter({
      kv,
      key: keyOf(jobId),
      jobId,
      maxBytes: options.maxBytes,
      expireSeconds: options.ttlSeconds + week,
      first: () => first(jobId),
      changed: () => bell.ring(bellOf(jobId)),
      log,
      closing: closing.signal,
    });

  const writerOf = (jobId: string): EventWriter => {
    const known = writers.get(jobId);
    if (known !== undefined) return known;
    const writer = createWriter(jobId);
    const at = begun.get(jobId);
    if (at !== undefined) writer.knowFirst(firstLine(at));
    begun.delete(jobId);
    writers.set(jobId, writer);
    return writer;
  };

  const begin = (jobId: string, at: string): void => {
    begun.set(jobId, at);
    for (const oldest of begun.keys()) {
      if (begun.size <= mostBegun) break;
      begun.delete(oldest);
    }
  };

  return {
    begin,

    open: () => undefined,

    append: (jobId, attempt, event) => writerOf(jobId).append(now().toISOString(), attempt, event),

    read: (jobId, after, signal) =>
      followStream({
        kv,
        key: keyOf(jobId),
        after,
        describe: async () => (isJobId(jobId) ? await describe(jobId) : null),
        begin: () => createWriter(jobId).begin(),
        isWritten: () => writers.get(jobId)?.isIdle() ?? true,
        changed: (stop) => bell.next(bellOf(jobId), stop),
        signal: AbortSignal.any([signal, closing.signal]),
      }),

    finish: async (jobId) => {
      const writer = writerOf(jobId);
      writer.end();
      await writer.settled();
      // One whose events still wait is forgotten when they are written; nothing but memory hangs on it.
      const forget = (): void => {
        if (writer.isIdle() && writers.get(jobId) === writer) writers.delete(jobId);
      };
      void writer.done().then(forget, forget);
    },

    remove: async (jobId) => {
      if (!isJobId(jobId)) return;
      writers.get(jobId)?.drop();
      writers.delete(jobId);
      await kv.ask((client) => client.unlink(keyOf(jobId)));
      bell.ring(bellOf(jobId));
    },

    close: async () => {
      closing.abort();
      await Promise.all(Array.from(writers.values(), (writer) => writer.done()));
      writers.clear();
    },
  };
};

const firstLine = (at: string): string => {
  const event: StageEvent = { type: "stage", stage: "queued", detail: null };
  return JSON.stringify({ at, attempt: 0, ...event });
};
