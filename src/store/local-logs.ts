import { mkdirSync } from "node:fs";
import { appendFile, open, readFile, rm, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { createNotifier } from "../lib/notifier.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import {
  isAfter,
  numberOf,
  startPosition,
  type Batch,
  type Entry,
  type LogFormat,
  type Logs,
} from "./logs.ts";

type Options = {
  /** Directory of a file `{id}.ndjson` per log. Null: logs are in memory only. */
  directory: string | null;
  now: () => Date;
  /** Most characters in memory of all logs together; the oldest ended logs are dropped first. */
  maxCharacters?: number;
};

/** `end`: size of the log up to and with the entry. */
type Stored = Entry & { length: number; end: number };

/** A log that this process writes. `entries`: the newest of `count`; `ended`: when it ended, ms since the epoch. */
type State = { entries: Stored[]; count: number; size: number; ended: number | null };

/** Entries in memory of a log with a file, and entries in a page that is read from memory. */
const tailEntries = 100;
const pageEntries = 20;

/** Longest wait for new entries, ms. */
const maxWait = 2000;

/** How long an ended log is remembered, ms. */
const rememberEnded = 3_600_000;

/**
 * Logs of one instance: the newest entries in memory and, with a directory, all of them in files, a line per entry. Readers
 * that keep up read from memory, and never an entry that is not in the file yet.
 */
export const createLocalLogs = (
  { maxEntries, numbered }: LogFormat,
  { directory, now, maxCharacters = 64 * 1024 * 1024 }: Options,
): Logs => {
  /** In the order of their first entries. */
  const states = new Map<string, State>();
  const notifier = createNotifier(maxWait);
  const { runExclusive } = createKeyedMutex();
  /** Characters of all entries in memory. */
  let length = 0;
  let time = 0;
  if (directory !== null) mkdirSync(directory, { recursive: true, mode: 0o700 });
  const pathOf = (id: string): string | null => (directory === null ? null : join(directory, `${id}.ndjson`));

  const trim = ({ entries }: State, max: number): void => {
    while (entries.length > max) length -= entries.shift()?.length ?? 0;
  };

  const forget = (id: string): void => {
    const state = states.get(id);
    if (state !== undefined) trim(state, 0);
    states.delete(id);
    notifier.notify(id);
  };

  const forgetEnded = (): void => {
    const limit = now().getTime() - rememberEnded;
    for (const [id, { ended }] of states) if (ended !== null && ended <= limit) forget(id);
  };

  const makeRoom = (): void => {
    for (const [id, { ended }] of states) {
      if (length <= maxCharacters) return;
      if (ended !== null) forget(id);
    }
    for (const state of states.values())
      while (length > maxCharacters && state.entries.length > 1) trim(state, state.entries.length - 1);
  };

  const load = async (id: string): Promise<State> => {
    forgetEnded();
    const path = pathOf(id);
    const known = path === null ? { count: 0, size: 0 } : await measureLines(path);
    const state = { entries: [], ended: null, ...known };
    states.set(id, state);
    return state;
  };

  const append = async (id: string, { reset, first, entries, isEnd }: Batch): Promise<number> => {
    if (reset) forget(id);
    const state = states.get(id) ?? (await load(id));
    const path = pathOf(id);
    const added = first !== null && state.count === 0 ? [first, ...entries] : entries;
    const lines = added.map(([, json = ""], at) => lineOf(state.count + at + 1, json));
    if (path !== null && lines.length > 0)
      await appendFile(path, lines.join(""), { mode: 0o600, flag: nonBlocking.append });
    for (const [at, fields] of added.entries()) {
      state.count += 1;
      state.size += Buffer.byteLength(lines[at] ?? "");
      // Times stay unique, and after those of an earlier log of the same id.
      const number = numbered ? state.count : (time = Math.max(time + 1, now().getTime()));
      const entry = { position: `${number}-0`, fields, length: fields.join("").length, end: state.size };
      state.entries.push(entry);
      length += entry.length;
    }
    state.ended = isEnd ? now().getTime() : null;
    if (path === null) trim(state, maxEntries);
    else trim(state, isEnd ? 0 : tailEntries);
    makeRoom();
    notifier.notify(id);
    return state.size;
  };

  return {
    shared: false,

    append: (id, batch) =>
      runExclusive(id, () =>
        append(id, batch).catch((error: unknown) => {
          // The next batch measures again what this one left in the file.
          forget(id);
          throw error;
        }),
      ),

    tail: async (id) => {
      const state = states.get(id);
      if (state !== undefined) {
        const position = numbered ? `${state.count}-0` : (state.entries.at(-1)?.position ?? startPosition);
        return { position, size: state.size, state: state.ended === null ? "open" : "ended" };
      }
      const path = pathOf(id);
      const found = path === null ? null : await stat(path).catch(nullIfMissing);
      return found === null ? null : { position: startPosition, size: found.size, state: "unknown" };
    },

    reader: (id) => {
      forgetEnded();
      /** How much of the file has been read, in bytes and lines. */
      let progress = { end: 0, line: 0 };

      const inMemory = (position: string): Entry[] => {
        const entries = states.get(id)?.entries ?? [];
        const from = entries.findLastIndex((entry) => !isAfter(entry.position, position)) + 1;
        const page = entries.slice(from, from + pageEntries);
        const last = page.at(-1);
        if (last !== undefined) progress = { end: last.end, line: numberOf(last.position) };
        return page;
      };

      const inFile = async (path: string, position: string): Promise<Entry[]> => {
        for (;;) {
          const { lines, end } = await readLines(path, progress.end);
          const { line } = progress;
          progress = { end, line: line + lines.length };
          const seen = Math.max(0, numberOf(position) - line);
          if (lines.length === 0 || lines.length > seen)
            return lines
              .map((text, at): Entry => ({ position: `${line + at + 1}-0`, fields: ["e", text] }))
              .slice(seen);
        }
      };

      return async (position) => {
        const path = pathOf(id);
        const oldest = states.get(id)?.entries[0]?.position ?? "Infinity-0";
        const isHere = path === null || numberOf(oldest) <= numberOf(position) + 1;
        return isHere ? inMemory(position) : await inFile(path, position);
      };
    },

    changed: notifier.waitFor,

    remove: (id) =>
      runExclusive(id, async () => {
        forget(id);
        const path = pathOf(id);
        if (path !== null) await rm(path, { force: true });
      }),
  };
};

/** The line of an entry: its JSON with its number in front. */
const lineOf = (number: number, json: string): string => `{"seq":${number},${json.slice(1)}\n`;

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

/** Number of lines and size of a file that an earlier start wrote. Cuts off a line that a crash tore. */
const measureLines = async (path: string): Promise<{ count: number; size: number }> => {
  const data = (await readFile(path, { flag: nonBlocking.read }).catch(nullIfMissing)) ?? Buffer.alloc(0);
  const size = data.lastIndexOf(10) + 1;
  if (size < data.length) await truncate(path, size);
  let count = 0;
  for (let at = data.indexOf(10); at !== -1; at = data.indexOf(10, at + 1)) count += 1;
  return { count, size };
};

const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT") return null;
  throw error;
};
