import { mkdirSync } from "node:fs";
import { appendFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { createBell } from "../lib/bell.ts";
import { createTurns } from "../lib/turns.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
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
type Stored = Entry & { characters: number; end: number };

/** A log that this process writes; `entries` are the newest of `count`, `ended` is when it ended, ms since the epoch. */
type State = { entries: Stored[]; characters: number; count: number; size: number; ended: number | null };

/** Characters in memory of a log with a file, and of a page. */
const tailSize = 65_536;
const pageSize = 256 * 1024;

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
  const bell = createBell(poll);
  const { inTurn } = createTurns();
  const nextTime = createTimes(now);
  let characters = 0;
  if (directory !== null) mkdirSync(directory, { recursive: true, mode: 0o700 });
  const pathOf = (id: string): string | null => (directory === null ? null : join(directory, `${id}.ndjson`));

  const forget = (id: string): void => {
    characters -= states.get(id)?.characters ?? 0;
    states.delete(id);
    bell.ring(id);
  };

  const forgetEnded = (): void => {
    const limit = now().getTime() - rememberEnded;
    for (const [id, { ended }] of states) if (ended !== null && ended <= limit) forget(id);
  };

  const dropWhile = (state: State, isTooMuch: () => boolean): void => {
    while (state.entries.length > 0 && isTooMuch()) {
      const length = state.entries.shift()?.characters ?? 0;
      state.characters -= length;
      characters -= length;
    }
  };

  const makeRoom = (state: State): void => {
    const tail = state.ended === null ? tailSize : 0;
    if (directory !== null) dropWhile(state, () => state.characters > tail);
    dropWhile(state, () => state.entries.length > mostEntries);
    if (characters <= most) return;
    for (const [id, { ended }] of states) if (characters > most && ended !== null) forget(id);
    for (const each of states.values()) dropWhile(each, () => characters > most && each.entries.length > 1);
  };

  const load = async (id: string): Promise<State> => {
    forgetEnded();
    const path = pathOf(id);
    const known = path === null ? { count: 0, size: 0 } : await measureLines(path);
    const state = { entries: [], characters: 0, ended: null, ...known };
    states.set(id, state);
    return state;
  };

  const append = async (id: string, { begin, first, entries, isEnd }: Batch): Promise<number> => {
    if (begin) forget(id);
    const state = states.get(id) ?? (await load(id));
    const path = pathOf(id);
    const added = first !== null && state.count === 0 ? [first, ...entries] : entries;
    const lines = added.map(([, text = ""], at) => lineOf(state.count + at + 1, text));
    if (path !== null && lines.length > 0)
      await appendFile(path, lines.join(""), { mode: 0o600, flag: withoutWaiting.append });
    for (const [at, fields] of added.entries()) {
      state.count += 1;
      state.size += Buffer.byteLength(lines[at] ?? "");
      const position = numbered ? `${state.count}-0` : nextTime();
      const length = fields.join("").length;
      state.entries.push({ position, fields, characters: length, end: state.size });
      state.characters += length;
      characters += length;
    }
    state.ended = isEnd ? now().getTime() : null;
    makeRoom(state);
    bell.ring(id);
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
        const position = numbered ? `${state.count}-0` : (state.entries.at(-1)?.position ?? nothingSeen);
        return { position, size: state.size, state: state.ended === null ? "open" : "ended" };
      }
      const path = pathOf(id);
      const found = path === null ? null : await stat(path).catch(nullIfMissing);
      return found === null ? null : { position: nothingSeen, size: found.size, state: "unknown" };
    },

    read: (id, after) => {
      forgetEnded();
      let position = after;
      /** Of the file: bytes that have been read, and the number of the last line. */
      let place = { end: 0, line: 0 };

      const inMemory = (): Entry[] | null => {
        const entries = states.get(id)?.entries ?? [];
        const [oldest] = entries;
        if (
          directory !== null &&
          (oldest === undefined || numberOf(oldest.position) > numberOf(position) + 1)
        )
          return null;
        const from = entries.findLastIndex((entry) => !isBehind(entry.position, position)) + 1;
        let size = 0;
        const page = entries
          .slice(from)
          .filter((entry, at) => at === 0 || (size += entry.characters) <= pageSize);
        const last = page.at(-1);
        if (last !== undefined) place = { end: last.end, line: numberOf(last.position) };
        return page;
      };

      const inFile = async (path: string): Promise<Entry[]> => {
        for (;;) {
          const { lines, end } = await readLines(path, place.end);
          const { line } = place;
          place = { end, line: line + lines.length };
          const page = lines.map((text, at): Entry => ({
            position: `${line + at + 1}-0`,
            fields: ["e", text],
          }));
          const unseen = page.slice(Math.max(0, numberOf(position) - line));
          if (lines.length === 0 || unseen.length > 0) return unseen;
        }
      };

      return {
        position: () => position,
        next: async () => {
          const path = pathOf(id);
          const page = inMemory() ?? (path === null ? [] : await inFile(path));
          position = page.at(-1)?.position ?? position;
          return page;
        },
      };
    },

    changed: bell.next,

    remove: (id) =>
      inTurn(id, async () => {
        forget(id);
        const path = pathOf(id);
        if (path !== null) await rm(path, { force: true });
      }),
  };
};

/** The entry of a file, which is JSON and gets its number in front. */
const lineOf = (number: number, json: string): string => `{"seq":${number},${json.slice(1)}\n`;

/** Positions as a stream of the key-value store has them: later ones are greater, also after a restart. */
const createTimes = (now: () => Date) => {
  let ms = 0;
  let number = 0;
  return (): string => {
    const time = Math.max(ms, now().getTime());
    number = time === ms ? number + 1 : 0;
    ms = time;
    return `${ms}-${number}`;
  };
};
