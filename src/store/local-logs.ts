import { mkdirSync } from "node:fs";
import { appendFile, open, readFile, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import { createNotifier } from "../lib/notifier.ts";
import { nonBlocking, nullIfMissing } from "../lib/non-blocking.ts";
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

  const dropExpired = (): void => {
    for (const [id, { expires }] of logs) if (expires <= now().getTime()) logs.delete(id);
  };

  const dropOldest = (): void => {
    let total = [...logs.values()].reduce((sum, { size }) => sum + size, 0);
    for (const [id, log] of logs) {
      if (total <= maxCharacters) return;
      const isLast = logs.size === 1;
      if (!isLast) logs.delete(id);
      total -= isLast ? 0 : log.size;
      while (isLast && log.size > maxCharacters && log.entries.length > 1) cut(log, 1);
    }
  };

  return {
    shared: false,

    append: async (id, batch) => {
      dropExpired();
      const log = logs.get(id) ?? { entries: [], size: 0, expires: 0 };
      const entries = numbered(batch);
      log.entries.push(...entries);
      for (const { fields } of entries) log.size += sizeOf(fields);
      cut(log, Math.max(0, log.entries.length - maxEntries));
      log.expires = now().getTime() + batch.seconds * 1000;
      logs.delete(id);
      logs.set(id, log);
      dropOldest();
      notifier.notify(id);
      return { number: entries.at(-1)?.number ?? batch.known.number, size: log.size };
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

    remove: async (id) => void logs.delete(id),
  };
};

/** Removes the oldest entries. */
const cut = (log: MemoryLog, count: number): void => {
  for (const { fields } of log.entries.splice(0, count)) log.size -= sizeOf(fields);
};

const sizeOf = (fields: Fields): number => Object.values(fields).join("").length;
