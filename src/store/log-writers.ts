import { randomUUID } from "node:crypto";
import type { Log } from "../lib/log.ts";
import { retry } from "../lib/wait.ts";
import type { Batch, Fields, Logs, Tail } from "./logs.ts";

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
  limit: Limit;
  /** Number of the first entry of an empty log, and the entry written before the others there. */
  start: () => number;
  first: (id: string) => Promise<Fields | null>;
  /** Seconds until the log expires after these entries. */
  seconds: (entries: readonly Fields[]) => number;
  /** An item that says in the log that others beside `left` are left out; null: the log does not say it. */
  leftOut: (left: Item, why: string) => Item | null;
  log: Log;
};

type Writer = {
  id: string;
  name: string;
  batches: number;
  /** What waits, and its size in bytes. */
  items: Item[];
  waiting: number;
  /** The end of the log; null: unknown. */
  known: Tail | null;
  first: Fields | null;
  batch: Batch | null;
  /** Whether it was said that items are left out, for want of memory and of space in the log. */
  isShort: boolean;
  isLong: boolean;
  running: Promise<void> | null;
  failure: PromiseWithResolvers<void>;
  lastMessage: string;
};

/** Most that waits for the store, per log, in bytes. */
const waitingLimit: Limit = { text: 3 * 1024 * 1024, all: 4 * 1024 * 1024 };

/** Most that is appended at once, in bytes. */
const batchSize = 256 * 1024;

const mayStay = ({ weight }: Item, size: number, limit: Limit): boolean =>
  weight === "needed" || size <= limit[weight === "text" ? "text" : "all"];

/**
 * Writes logs in the background, each in order. A write that a shared store refuses is retried for as long as it takes; one
 * that a file refuses is given up.
 */
export const createLogWriters = (options: Options) => {
  const { logs, noun, log } = options;
  const writers = new Map<string, Writer>();
  const closing = new AbortController();
  const patience = logs.shared ? closing.signal : AbortSignal.abort();

  const writerOf = (id: string): Writer => {
    const writer = writers.get(id) ?? {
      id,
      name: randomUUID(),
      batches: 0,
      items: [],
      waiting: 0,
      known: null,
      first: null,
      batch: null,
      isShort: false,
      isLong: false,
      running: null,
      failure: Promise.withResolvers(),
      lastMessage: "",
    };
    writers.set(id, writer);
    return writer;
  };

  const add = (writer: Writer, item: Item | null): void => {
    if (item === null) return;
    writer.items.push(item);
    writer.waiting += item.size;
  };

  const append = (id: string, item: Item): void => {
    const writer = writerOf(id);
    if (mayStay(item, writer.waiting, waitingLimit)) add(writer, item);
    else if (!writer.isShort) {
      writer.isShort = true;
      log.warn({ [noun]: id }, `too many events of a ${noun} wait to be written; some are left out`);
      add(writer, options.leftOut(item, "More events come than the store takes"));
    }
    writer.running ??= write(writer);
  };

  const write = async (writer: Writer): Promise<void> => {
    // Items that are added in the same tick go in one batch.
    await Promise.resolve();
    const onFailure = (err: unknown): void => {
      logOnce(writer, err, `events of a ${noun} cannot be written at present; they wait`);
      writer.failure.resolve();
      writer.failure = Promise.withResolvers();
    };
    while (!isEmpty(writer)) {
      await retry(() => send(writer), { first: 100, longest: 2000, signal: patience, onFailure }).catch(
        (err: unknown) => {
          logOnce(writer, err, `events of a ${noun} could not be written; they are missing`);
          discard(writer);
        },
      );
    }
    writer.running = null;
  };

  const send = async (writer: Writer): Promise<void> => {
    const { id } = writer;
    if (writer.known === null) {
      const tail = await logs.tail(id);
      writer.first = tail === null ? await options.first(id) : null;
      writer.known = tail ?? { number: 0, size: 0 };
    }
    writer.batch ??= nextBatch(writer, writer.known);
    const { batch } = writer;
    if (batch !== null) writer.known = await logs.append(id, batch);
    // `discard` may have replaced it meanwhile.
    if (writer.batch === batch) writer.batch = null;
    if (writer.items.length === 0) writer.isShort = false;
    writer.lastMessage = "";
  };

  /** The oldest items; null: all of them are left out. */
  const nextBatch = (writer: Writer, known: Tail): Batch | null => {
    const entries: Fields[] = [];
    const end = known.size + batchSize;
    let [{ size }, taken] = [known, 0];
    for (const item of writer.items) {
      if (size >= end) break;
      taken += 1;
      writer.waiting -= item.size;
      const isWritten = mayStay(item, size, options.limit);
      const note = isWritten || writer.isLong ? null : options.leftOut(item, `The log has ${size} bytes`);
      if (!isWritten) writer.isLong = true;
      for (const each of [note, isWritten ? item : null]) {
        if (each === null) continue;
        entries.push(each.fields);
        size += each.size;
      }
    }
    writer.items.splice(0, taken);
    if (entries.length === 0) return null;
    const name = `${writer.name}:${(writer.batches += 1)}`;
    const [start, seconds] = [options.start(), options.seconds(entries)];
    return { name, known, start, first: writer.first, entries, seconds };
  };

  const logOnce = (writer: Writer, err: unknown, message: string): void => {
    if (writer.lastMessage !== message) log.warn({ err, [noun]: writer.id }, message);
    writer.lastMessage = message;
  };

  return {
    /** Never waits and never throws. */
    append,
    /** Resolves when all is written or given up, or when that has failed and is retried. Call it after the last event. */
    flush: async (id: string): Promise<void> => {
      const writer = writers.get(id);
      if (writer === undefined) return;
      const done = (writer.running ?? Promise.resolve()).then(() => {
        if (isEmpty(writer) && writers.get(id) === writer) writers.delete(id);
      });
      await Promise.race([done, writer.failure.promise]);
    },
    /** Whether this instance has nothing left to write to a log. */
    isIdle: (id: string): boolean => {
      const writer = writers.get(id);
      return writer === undefined || isEmpty(writer);
    },
    /** Discards what waits for a log. */
    drop: (id: string): void => {
      const writer = writers.get(id);
      if (writer !== undefined) discard(writer);
      writers.delete(id);
    },
    /** Tries a last time to write what waits. */
    close: async (): Promise<void> => {
      closing.abort();
      await Promise.all(Array.from(writers.values(), ({ running }) => running ?? Promise.resolve()));
      writers.clear();
    },
  };
};

const isEmpty = ({ items, batch }: Writer): boolean => items.length === 0 && batch === null;

/** The next batch measures the log again: an append that failed may have left something. */
const discard = (writer: Writer): void => {
  writer.items = [];
  [writer.waiting, writer.batch, writer.known] = [0, null, null];
};
