import { mkdirSync } from "node:fs";
import { appendFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { createNotifier } from "../lib/notifier.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { measureLines, nullIfMissing, readLines } from "./file-lines.ts";
import {
  isBehind,
  nothingSeen,
  numberOf,
  type Batch,
  type Entry,
  type LogFormat,
  type Logs,
} from "./logs.ts";

type Options = {
  /** Where a file `{id}.ndjson` is behind each log. Null: what is not in memory is gone. */
  directory: string | null;
  now: () => Date;
  /** Characters in memory of all logs together, past which the oldest that have ended go. */
  most?: number;
};

/** `end`: size of the log up to and with the entry. */
type Stored = Entry & { length: number; end: number };

/** A log that this process writes. `entries` are the newest of `count`; `ended`: when it ended, ms since the epoch. */
type State = { entries: Stored[]; count: number; size: number; ended: number | null };

/** Entries in memory of a log with a file, and entries that are read from memory at once. */
const tailEntries = 100;
const pageEntries = 20;

/** Longest wait for what is appended, ms. */
const poll = 2000;

/** How long a log that has ended is remembered, ms. */
const rememberEnded = 3_600_000;

/**
 * Logs of one instance: the newest entries in memory and, where there is a directory, all of them in files, a line per
 * entry. Readers that keep up read from memory, and nothing that is not in the file yet.
 */
export const createLocalLogs = (
  { most: mostEntries, numbered }: LogFormat,
  { directory, now, most = 64 * 1024 * 1024 }: Options,
): Logs => {
  /** In the order in which they began. */
  const states = new Map<string, State>();
  const notifier = createNotifier(poll);
  const { runExclusive: inTurn } = createKeyedMutex();
  /** Of all entries in memory. */
  let length = 0;
  let time = 0;
  if (directory !== null) mkdirSync(directory, { recursive: true, mode: 0o700 });
  const pathOf = (id: string): string | null => (directory === null ? null : join(directory, `${id}.ndjson`));

  const trim = ({ entries }: State, keep: number): void => {
    while (entries.length > keep) length -= entries.shift()?.length ?? 0;
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
      if (length <= most) return;
      if (ended !== null) forget(id);
    }
    for (const state of states.values())
      while (length > most && state.entries.length > 1) trim(state, state.entries.length - 1);
  };

  const load = async (id: string): Promise<State> => {
    forgetEnded();
    const path = pathOf(id);
    const known = path === null ? { count: 0, size: 0 } : await measureLines(path);
    const state = { entries: [], ended: null, ...known };
    states.set(id, state);
    return state;
  };

  const append = async (id: string, { begin, first, entries, isEnd }: Batch): Promise<number> => {
    if (begin) forget(id);
    const state = states.get(id) ?? (await load(id));
    const path = pathOf(id);
    const added = first !== null && state.count === 0 ? [first, ...entries] : entries;
    const lines = added.map(([, json = ""], at) => lineOf(state.count + at + 1, json));
    if (path !== null && lines.length > 0)
      await appendFile(path, lines.join(""), { mode: 0o600, flag: nonBlocking.append });
    for (const [at, fields] of added.entries()) {
      state.count += 1;
      state.size += Buffer.byteLength(lines[at] ?? "");
      // Times go on behind those of an earlier start.
      const number = numbered ? state.count : (time = Math.max(time + 1, now().getTime()));
      const entry = { position: `${number}-0`, fields, length: fields.join("").length, end: state.size };
      state.entries.push(entry);
      length += entry.length;
    }
    state.ended = isEnd ? now().getTime() : null;
    if (path === null) trim(state, mostEntries);
    else trim(state, isEnd ? 0 : tailEntries);
    makeRoom();
    notifier.notify(id);
    return state.size;
  };

  return {
    shared: false,

    append: (id, batch) =>
      inTurn(id, () =>
        append(id, batch).catch((error: unknown) => {
          // What it left in the file is measured before the next batch.
          forget(id);
          throw error;
        }),
      ),

    tail: async (id) => {
      const state = states.get(id);
      if (state !== undefined) {
        const last = numbered ? `${state.count}-0` : (state.entries.at(-1)?.position ?? nothingSeen);
        return { position: last, size: state.size, state: state.ended === null ? "open" : "ended" };
      }
      const path = pathOf(id);
      const found = path === null ? null : await stat(path).catch(nullIfMissing);
      return found === null ? null : { position: nothingSeen, size: found.size, state: "unknown" };
    },

    reader: (id) => {
      forgetEnded();
      /** How far the file has been read, in bytes and lines. */
      let place = { end: 0, line: 0 };

      const inMemory = (position: string): Entry[] => {
        const entries = states.get(id)?.entries ?? [];
        const from = entries.findLastIndex((entry) => !isBehind(entry.position, position)) + 1;
        const page = entries.slice(from, from + pageEntries);
        const last = page.at(-1);
        if (last !== undefined) place = { end: last.end, line: numberOf(last.position) };
        return page;
      };

      const inFile = async (path: string, position: string): Promise<Entry[]> => {
        for (;;) {
          const { lines, end } = await readLines(path, place.end);
          const { line } = place;
          place = { end, line: line + lines.length };
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
      inTurn(id, async () => {
        forget(id);
        const path = pathOf(id);
        if (path !== null) await rm(path, { force: true });
      }),
  };
};

/** The line of an entry, which is JSON and gets its number in front. */
const lineOf = (number: number, json: string): string => `{"seq":${number},${json.slice(1)}\n`;
