import { randomUUID } from "node:crypto";
import type { Log } from "../lib/log.ts";
import { retry } from "../lib/wait.ts";

/** Names and values of an entry. */
export type Fields = Readonly<Record<string, string>>;

/** Entries of a log are numbered without a gap. */
export type Entry = { number: number; fields: Fields };

/** The end of a log: the number of its newest entry, and its size in bytes. */
export type Tail = { number: number; size: number };

/** Entries that are appended at once. */
export type Batch = {
  /** Identifies a batch that was written although the reply was lost. */
  name: string;
  /** The end of the log as the writer knows it: earlier entries cannot be of this batch. */
  known: Tail;
  /** Number of the first entry of an empty log. */
  start: number;
  entries: readonly Fields[];
  /** Seconds until the log expires. */
  seconds: number;
};

/** `at`: where an adapter goes on; 0 at first. */
type Page = { entries: Entry[]; at: number };

/**
 * PORT. Append-only logs by id: in files or in memory (`local-logs.ts`), or streams in the key-value store
 * (`redis-logs.ts`). A reader holds a position and one page, so that a stalled one costs no memory.
 */
export type Logs = {
  /** Whether other instances write these logs too, and they may be unreachable for a while. */
  shared: boolean;
  /** Resolves to the new end of the log. Appending a batch twice has no effect. */
  append: (id: string, batch: Batch) => Promise<Tail>;
  /** Null: there is no such log. */
  tail: (id: string) => Promise<Tail | null>;
  /** Some entries after a number. None: the end is reached; null: the log cannot be read at present. */
  read: (id: string, after: number, at: number) => Promise<Page | null>;
  /** Resolves when something was appended, after 2 s at the latest, or when the signal aborts. */
  changed: (id: string, signal: AbortSignal) => Promise<void>;
  remove: (id: string) => Promise<void>;
};

/** The start of a text that is too long, in characters, with a note. */
export const cutText = (text: string, longest: number): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[… ${text.length - longest} characters left out …]`;

type Follow = {
  logs: Pick<Logs, "read" | "changed">;
  id: string;
  after: number;
  /** Whether nothing will follow, asked when all has been read. */
  isOver: () => boolean | Promise<boolean>;
  signal: AbortSignal;
};

/** Entries after a number, then new ones, until the log is over or the signal aborts. */
export const follow = async function* ({ logs, id, after, isOver, signal }: Follow): AsyncGenerator<Entry> {
  const closed = new AbortController();
  const stop = AbortSignal.any([signal, closed.signal]);
  let [number, at, over] = [after, 0, false];
  try {
    // Subscribed before each read: no entry that is appended during the read is missed.
    let change = logs.changed(id, stop);
    while (!stop.aborted) {
      const page = await logs.read(id, number, at);
      for (const entry of page?.entries ?? []) {
        yield entry;
        if (stop.aborted) return;
        ({ number } = entry);
      }
      if (page !== null) ({ at } = page);
      const isAtEnd = page !== null && page.entries.length === 0;
      if (isAtEnd && over) return;
      over = isAtEnd && (await isOver());
      if (over || (page !== null && !isAtEnd)) continue;
      await change;
      change = logs.changed(id, stop);
    }
  } finally {
    closed.abort();
  }
};

/** `text` is left out first when space is short, then `other`; `needed` stays. */
type Weight = "text" | "other" | "needed";

export type Item = { fields: Fields; size: number; weight: Weight };

/** Sizes in bytes past which texts, and all but what is needed, are left out. */
type Limit = { text: number; all: number };

type Options = {
  logs: Logs;
  /** Whose events they are, in log messages. */
  noun: string;
  /** Most of the whole log. */
  limit?: Limit;
  /** Number of the first entry of an empty log. */
  start: () => number;
  /** Seconds until the log expires after these entries. */
  seconds: (entries: readonly Fields[]) => number;
  /** An item that says in the log that others beside `left` are left out. */
  leftOut?: (left: Item, why: string) => Item;
  log: Log;
};

type Buffer = {
  id: string;
  /** What waits, and its size in bytes. */
  items: Item[];
  waiting: number;
  /** The end of the log; null: unknown. */
  end: Tail | null;
  /** What is being appended. */
  batch: Batch | null;
  /** Whether it was said that items are left out. */
  isShort: boolean;
  running: Promise<void> | null;
  failed: PromiseWithResolvers<void>;
  lastMessage: string;
};

/** Most that waits for the store, per log, and that is appended at once, in bytes. */
const waitingLimit: Limit = { text: 3 * 1024 * 1024, all: 4 * 1024 * 1024 };
const batchSize = 256 * 1024;

const unlimited: Limit = { text: Infinity, all: Infinity };

/**
 * A bounded buffer before each log, which is written in the background, in order. A write that a shared store refuses is
 * retried for as long as it takes; one that a file refuses is given up.
 */
export const createLogBuffers = (options: Options) => {
  const { logs, noun, limit = unlimited, leftOut, log } = options;
  const writer = randomUUID();
  let batches = 0;
  const buffers = new Map<string, Buffer>();
  const closing = new AbortController();
  const patience = logs.shared ? closing.signal : AbortSignal.abort();

  const open = (id: string): Buffer => {
    const [failed, empty] = [
      Promise.withResolvers<void>(),
      { items: [], waiting: 0, end: null, batch: null },
    ];
    const buffer = { id, ...empty, isShort: false, running: null, failed, lastMessage: "" };
    buffers.set(id, buffer);
    return buffer;
  };

  /** The item if it fits, or else, once, one that says that others are left out. */
  const admit = (buffer: Buffer, item: Item, size: number, most: Limit, why: string): Item | null => {
    const { weight } = item;
    if (weight === "needed" || size <= most[weight === "text" ? "text" : "all"]) return item;
    if (buffer.isShort) return null;
    buffer.isShort = true;
    log.warn({ [noun]: buffer.id }, `${why}: some are left out`);
    return leftOut?.(item, why) ?? null;
  };

  const write = async (buffer: Buffer): Promise<void> => {
    // Items that are added in the same tick go in one batch.
    await Promise.resolve();
    const onFailure = (err: unknown): void => {
      logOnce(buffer, err, `events of a ${noun} cannot be written at present; they wait`);
      buffer.failed.resolve();
      buffer.failed = Promise.withResolvers();
    };
    while (!isEmpty(buffer)) {
      await retry(() => send(buffer), { first: 100, longest: 2000, signal: patience, onFailure }).catch(
        (err: unknown) => {
          logOnce(buffer, err, `events of a ${noun} could not be written; they are missing`);
          discard(buffer);
        },
      );
    }
    buffer.running = null;
  };

  const send = async (buffer: Buffer): Promise<void> => {
    const { id } = buffer;
    buffer.end ??= (await logs.tail(id)) ?? { number: 0, size: 0 };
    buffer.batch ??= nextBatch(buffer, buffer.end);
    const { batch } = buffer;
    if (batch !== null) buffer.end = await logs.append(id, batch);
    // `discard` may have replaced it meanwhile.
    if (buffer.batch === batch) buffer.batch = null;
    buffer.lastMessage = "";
  };

  /** The oldest items; null: all of them are left out. */
  const nextBatch = (buffer: Buffer, known: Tail): Batch | null => {
    const entries: Fields[] = [];
    let [{ size }, taken] = [known, 0];
    for (const item of buffer.items) {
      if (size >= known.size + batchSize) break;
      taken += 1;
      buffer.waiting -= item.size;
      const admitted = admit(buffer, item, size, limit, `The log has ${size} bytes`);
      if (admitted === null) continue;
      entries.push(admitted.fields);
      size += admitted.size;
    }
    buffer.items.splice(0, taken);
    if (entries.length === 0) return null;
    const [name, seconds] = [`${writer}:${(batches += 1)}`, options.seconds(entries)];
    return { name, known, start: options.start(), entries, seconds };
  };

  const logOnce = (buffer: Buffer, err: unknown, message: string): void => {
    if (buffer.lastMessage !== message) log.warn({ err, [noun]: buffer.id }, message);
    buffer.lastMessage = message;
  };

  return {
    /** Never waits and never throws. */
    append: (id: string, item: Item): void => {
      const buffer = buffers.get(id) ?? open(id);
      const why = "More events come than the store takes";
      const admitted = admit(buffer, item, buffer.waiting, waitingLimit, why);
      if (admitted === null) return;
      buffer.items.push(admitted);
      buffer.waiting += admitted.size;
      buffer.running ??= write(buffer);
    },
    /** Resolves when all is written or given up, or when that has failed and is retried. Call it after the last event. */
    flush: async (id: string): Promise<void> => {
      const buffer = buffers.get(id);
      if (buffer === undefined) return;
      const done = (buffer.running ?? Promise.resolve()).then(() => {
        if (isEmpty(buffer) && buffers.get(id) === buffer) buffers.delete(id);
      });
      await Promise.race([done, buffer.failed.promise]);
    },
    /** Whether this instance has nothing left to write to a log. */
    isIdle: (id: string): boolean => {
      const buffer = buffers.get(id);
      return buffer === undefined || isEmpty(buffer);
    },
    /** Discards what waits for a log. */
    drop: (id: string): void => {
      const buffer = buffers.get(id);
      if (buffer !== undefined) discard(buffer);
      buffers.delete(id);
    },
    /** Tries a last time to write what waits. */
    close: async (): Promise<void> => {
      closing.abort();
      await Promise.all(Array.from(buffers.values(), ({ running }) => running ?? Promise.resolve()));
      buffers.clear();
    },
  };
};

const isEmpty = ({ items, batch }: Buffer): boolean => items.length === 0 && batch === null;

/** The next batch measures the log again: an append that failed may have left something. */
const discard = (buffer: Buffer): void => {
  buffer.items = [];
  [buffer.waiting, buffer.batch, buffer.end] = [0, null, null];
};
