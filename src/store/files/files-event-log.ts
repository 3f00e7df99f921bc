import { appendFile, mkdir, readFile, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import type { AgentEvent, JobEvent, StageEvent } from "../../contract/event.ts";
import { createBell } from "../../lib/bell.ts";
import type { Log } from "../../lib/log.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import { createBudget, shorten } from "../event-budget.ts";
import type { EventLog } from "../event-log.ts";
import { isJobId } from "../stored-job.ts";
import { followFile } from "./follow-file.ts";

type Options = {
  directory: string;
  /** Bytes of one job's log past which thinking and text are left out. */
  maxBytes: number;
  log: Log;
  now: () => Date;
};

/** `first`: only written as the first event of a log. */
type Pending = { at: string; attempt: number; event: AgentEvent | StageEvent; first: boolean };

/** State of a log that is being written. The sequence number is the line number. */
type Writer = {
  pending: Pending[];
  seq: number;
  size: number;
  flushing: Promise<void> | null;
  broken: boolean;
  budget: ReturnType<typeof createBudget>;
};

/** One `{id}.ndjson` per job under `directory`, a line per event. */
export const openFilesEventLog = async ({ directory, maxBytes, log, now }: Options): Promise<EventLog> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const writers = new Map<string, Writer>();
  const bell = createBell();
  const file = (jobId: string): string => join(directory, `${jobId}.ndjson`);

  const writerOf = (jobId: string): Writer => {
    const known = writers.get(jobId);
    if (known !== undefined) return known;
    const writer: Writer = {
      pending: [],
      seq: -1,
      size: 0,
      flushing: null,
      broken: false,
      budget: createBudget(maxBytes),
    };
    writers.set(jobId, writer);
    return writer;
  };

  /** Writes what has gathered, again until nothing has; one at a time per job. */
  const flush = async (jobId: string, writer: Writer): Promise<void> => {
    // `flushing` is set before this goes on: were all events left out, it would be cleared first and stay settled for ever.
    await Promise.resolve();
    try {
      if (writer.seq === -1) Object.assign(writer, await measure(file(jobId)));
      while (writer.pending.length > 0) {
        const batch = writer.pending.splice(0);
        const lines: string[] = [];
        for (const { at, attempt, event, first } of batch) {
          if (first && writer.seq > 0) continue;
          for (const kept of writer.budget(shorten(event), writer.size)) {
            const line = `${JSON.stringify({ seq: (writer.seq += 1), at, attempt, ...kept })}\n`;
            writer.size += Buffer.byteLength(line);
            lines.push(line);
          }
        }
        if (lines.length > 0)
          await appendFile(file(jobId), lines.join(""), { mode: 0o600, flag: withoutWaiting.append });
        bell.ring(jobId);
      }
    } catch (error) {
      writer.pending.length = 0;
      // The line count is no longer certain: it is read anew before the next write.
      writer.seq = -1;
      if (!writer.broken)
        log.error({ err: error, job: jobId }, "the event log cannot be written; events are missing");
      writer.broken = true;
    } finally {
      writer.flushing = null;
    }
  };

  const settled = async (jobId: string): Promise<void> => {
    const writer = writers.get(jobId);
    if (writer !== undefined && writer.pending.length > 0) writer.flushing ??= flush(jobId, writer);
    while (writer?.flushing) await writer.flushing;
  };

  return {
    begin: (jobId, at) => {
      const event: StageEvent = { type: "stage", stage: "queued", detail: null };
      writerOf(jobId).pending.push({ at, attempt: 0, event, first: true });
    },

    open: (jobId) => void writerOf(jobId),

    append: (jobId, attempt, event) => {
      const writer = writerOf(jobId);
      writer.pending.push({ at: now().toISOString(), attempt, event, first: false });
      writer.flushing ??= flush(jobId, writer);
    },

    read: async function* (jobId, after, signal) {
      if (!isJobId(jobId)) return;
      await settled(jobId);
      const lines = followFile({
        path: file(jobId),
        skip: after,
        isOpen: () => writers.has(jobId),
        changed: (stop) => bell.next(jobId, stop),
        signal,
      });
      for await (const line of lines) {
        const event = parse(line);
        if (event !== null) yield event;
      }
    },

    finish: async (jobId) => {
      await settled(jobId);
      writers.delete(jobId);
      bell.ring(jobId);
    },

    remove: async (jobId) => {
      if (!isJobId(jobId)) return;
      await settled(jobId);
      writers.delete(jobId);
      bell.ring(jobId);
      await rm(file(jobId), { force: true });
    },

    close: async () => {
      const open = Array.from(writers.keys());
      for (const jobId of open) await settled(jobId);
      writers.clear();
      for (const jobId of open) bell.ring(jobId);
    },
  };
};

/** Number of lines and size of a log that an earlier start wrote; a line that a crash tore is cut off. */
const measure = async (path: string): Promise<{ seq: number; size: number }> => {
  const data = await readFile(path, { flag: withoutWaiting.read }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
  const size = data.lastIndexOf(10) + 1;
  if (size < data.length) await truncate(path, size);
  let seq = 0;
  for (let at = data.indexOf(10); at !== -1; at = data.indexOf(10, at + 1)) seq += 1;
  return { seq, size };
};

const parse = (line: string): JobEvent | null => {
  try {
    return JSON.parse(line) as JobEvent;
  } catch {
    // A line that is not JSON was damaged outside of us; the others still tell their story.
    return null;
  }
};
