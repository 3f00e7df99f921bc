import { mkdirSync } from "node:fs";
import { appendFile, open, readFile, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import { createNotifier } from "../lib/notifier.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import type { Batch, Entry, Fields, Logs } from "./logs.ts";

/** Longest wait for new entries, ms. */
const maxWait = 2000;

/** The entries of a batch, numbered. */
const numbered = ({ known, start, entries }: Batch): Entry[] =>
  entries.map((fields, at) => ({ number: (known.number === 0 ? start : known.number + 1) + at, fields }));

/**
 * A file `{id}.ndjson` per log, a line per entry: its field `e`, which is JSON, with its number in front. One server writes
 * them, each log by one writer, so the writer knows where a log ends.
 */
export const createFileLogs = (directory: string): Logs => {
  const notifier = createNotifier(maxWait);
  const pathOf = (id: string): string => join(directory, `${id}.ndjson`);
  mkdirSync(directory, { recursive: true, mode: 0o700 });

  return {
    shared: false,

    append: async (id, batch) => {
      const entries = numbered(batch);
      const text = entries.map(lineOf).join("");
      await appendFile(pathOf(id), text, { mode: 0o600, flag: nonBlocking.append });
      notifier.notify(id);
      const number = entries.at(-1)?.number ?? batch.known.number;
      return { number, size: batch.known.size + Buffer.byteLength(text) };
    },

    // Cuts off a line that a crash tore.
    tail: async (id) => {
      const data = await readFile(pathOf(id), { flag: nonBlocking.read }).catch(nullIfMissing);
      const size = data === null ? 0 : data.lastIndexOf(10) + 1;
      if (data === null) return null;
      if (size < data.length) await truncate(pathOf(id), size);
      const last = data.toString("utf8", data.lastIndexOf(10, size - 2) + 1, size);
      return size === 0 ? null : { number: numberOf(last), size };
    },

    read: async (id, after, from) => {
      for (let at = from; ;) {
        const { lines, end } = await readLines(pathOf(id), at);
        const all = lines.map((line): Entry => ({ number: numberOf(line), fields: { e: line } }));
        const entries = all.filter(({ number }) => number > after);
        at = end;
        if (lines.length === 0 || entries.length > 0) return { entries, at };
      }
    },

    changed: notifier.waitFor,

    remove: async (id) => {
      await rm(pathOf(id), { force: true });
      notifier.notify(id);
    },
  };
};

const lineOf = ({ number, fields: { e = "{}" } }: Entry): string => `{"seq":${number},${e.slice(1)}\n`;

const numberOf = (line: string): number => Number(/^\{"seq":(\d+),/.exec(line)?.[1] ?? 0);

/** What is read at once, bytes, unless a line is longer. */
const chunkSize = 65_536;

/** Some 64 KiB of complete lines from a byte on, and the byte after them. Empty at the end, and without a file. */
const readLines = async (path: string, offset: number): Promise<{ lines: string[]; end: number }> => {
  const file = await open(path, nonBlocking.read).catch(nullIfMissing);
  if (file === null) return { lines: [], end: offset };
  try {
    for (let size = chunkSize; ; size *= 2) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(size), 0, size, offset);
      const length = buffer.subarray(0, bytesRead).lastIndexOf(10) + 1;
      if (length > 0)
        return { lines: buffer.toString("utf8", 0, length - 1).split("\n"), end: offset + length };
      if (bytesRead < size) return { lines: [], end: offset };
    }
  } finally {
    await file.close();
  }
};

const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT") return null;
  throw error;
};

type MemoryOptions = {
  maxEntries: number;
  /** Most characters of all logs together; those that were written longest ago are dropped first. */
  maxCharacters?: number;
  now: () => Date;
};

type MemoryLog = { entries: Entry[]; size: number; expires: number };

/** Logs that only this process reads, and that a restart may lose. */
export const createMemoryLogs = (options: MemoryOptions): Logs => {
  const { maxEntries, maxCharacters = 64 * 1024 * 1024, now } = options;
  const notifier = createNotifier(maxWait);
  /** In the order of their last entries. */
  const logs = new Map<string, MemoryLog>();
  let total = 0;

  const trim = (log: MemoryLog, max: number): void => {
    const dropped = log.entries.splice(0, Math.max(0, log.entries.length - max));
    total -= dropped.reduce((sum, { fields }) => sum + sizeOf(fields), 0);
  };

  const drop = (id: string): void => {
    const log = logs.get(id);
    if (log !== undefined) trim(log, 0);
    logs.delete(id);
  };

  const dropExpired = (): void => {
    for (const [id, { expires }] of logs) if (expires <= now().getTime()) drop(id);
  };

  return {
    shared: false,

    append: async (id, batch) => {
      dropExpired();
      const log = logs.get(id) ?? { entries: [], size: 0, expires: 0 };
      logs.delete(id);
      logs.set(id, log);
      for (const entry of numbered(batch)) {
        log.entries.push(entry);
        total += sizeOf(entry.fields);
        log.size += sizeOf(entry.fields);
      }
      log.expires = now().getTime() + batch.seconds * 1000;
      trim(log, maxEntries);
      for (const other of logs.keys()) if (total > maxCharacters && other !== id) drop(other);
      while (total > maxCharacters && log.entries.length > 1) trim(log, log.entries.length - 1);
      notifier.notify(id);
      return { number: log.entries.at(-1)?.number ?? batch.known.number, size: log.size };
    },

    tail: async (id) => {
      const log = logs.get(id);
      return log === undefined ? null : { number: log.entries.at(-1)?.number ?? 0, size: log.size };
    },

    read: async (id, after) => {
      dropExpired();
      const entries = logs.get(id)?.entries ?? [];
      return { entries: entries.slice(entries.findLastIndex(({ number }) => number <= after) + 1), at: 0 };
    },

    changed: notifier.waitFor,

    remove: async (id) => drop(id),
  };
};

const sizeOf = (fields: Fields): number => Object.values(fields).join("").length;
