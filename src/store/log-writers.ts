import { randomUUID } from "node:crypto";
import type { Log } from "../lib/log.ts";
import { pause, retry } from "../lib/wait.ts";
import { createBacklog, type Item } from "./backlog.ts";
import type { Batch, Fields, Logs } from "./logs.ts";

type Options<Value> = {
  logs: Logs;
  /** What it is whose events are written. */
  noun: string;
  /** Most that waits to be appended to one log. */
  most: { items: number; size: number };
  /** How long items gather before they are written, ms. */
  gatherMs?: number;
  /** Seconds that a log is kept, ended or not. */
  seconds: { ended: number; open: number };
  /** What is known of a log when it is first appended to: its size, and what comes first should it be empty. */
  look: (id: string) => Promise<{ size: number; first: Fields | null }>;
  /** Makes entries of what waited for one log, given the size of that log in bytes. */
  encoder: (id: string) => (items: readonly Item<Value>[], size: number) => Fields[];
  /** Makes one item of two; null: they stay apart. */
  join?: (last: Value, next: Value) => Item<Value> | null;
  /** Says in the log itself that something before this item is left out. */
  leftOut?: (newer: Value) => Item<Value>;
  log: Log;
};

/** What goes to a log at once, by the sizes of its items. */
const batchSize = 256 * 1024;

/**
 * Writes logs in the background, each in its order and for as long as it takes: what a shared store does not take at
 * present waits and is sent again. What a file does not take is missing.
 */
export const createLogWriters = <Value>(options: Options<Value>) => {
  const { logs, noun, gatherMs = 0, log } = options;
  const writers = new Map<string, ReturnType<typeof create>>();
  const closing = new AbortController();
  const patience = logs.shared ? closing.signal : AbortSignal.abort();

  const create = (id: string) => {
    const encode = options.encoder(id);
    const backlog = createBacklog<Value>({
      most: options.most,
      onLeftOut: ({ value }) => {
        log.warn({ [noun]: id }, `too many events of a ${noun} wait to be written; the oldest are left out`);
        if (options.leftOut !== undefined) backlog.add(options.leftOut(value));
      },
    });
    let known: Awaited<ReturnType<typeof options.look>> | null = null;
    let isBegin = false;
    let isEnd = false;
    let batch: Batch | null = null;
    let writing: Promise<void> | null = null;
    let gathering: AbortController | null = null;
    let failure = Promise.withResolvers<void>();
    let said = "";

    const isIdle = (): boolean => batch === null && backlog.isEmpty() && !isBegin && !isEnd;

    const drop = (): void => {
      backlog.take(Infinity);
      [isBegin, isEnd, batch] = [false, false, null];
    };

    const nextBatch = async (): Promise<Batch | null> => {
      known ??= await options.look(id);
      if (isIdle()) return null;
      const entries = encode(backlog.take(batchSize), known.size);
      const isLast = isEnd && backlog.isEmpty();
      const seconds = isLast ? options.seconds.ended : options.seconds.open;
      const [begin, { first }] = [isBegin, known];
      const next = { name: randomUUID(), again: false, begin, first, entries, isEnd: isLast, seconds };
      isBegin = false;
      isEnd &&= !isLast;
      return next;
    };

    const send = async (): Promise<void> => {
      batch ??= await nextBatch();
      if (batch === null || known === null) return;
      const sent = batch;
      try {
        known.size = await logs.append(id, sent);
      } finally {
        sent.again = true;
      }
      // Dropped meanwhile, it may have been followed by another.
      if (batch === sent) batch = null;
      backlog.written();
      said = "";
    };

    const sayOnce = (level: "warn" | "error", err: unknown, text: string): void => {
      if (said !== text) log[level]({ err, [noun]: id }, text);
      said = text;
    };

    const onFailure = (err: unknown): void => {
      sayOnce("warn", err, `events of a ${noun} cannot be written at present; they wait`);
      failure.resolve();
      failure = Promise.withResolvers();
    };

    const giveUp = (err: unknown): void => {
      sayOnce("error", err, `events of a ${noun} could not be written; they are missing`);
      drop();
    };

    const write = async (): Promise<void> => {
      // What comes in one breath goes in one batch.
      await Promise.resolve();
      while (!isIdle()) {
        if (gatherMs > 0 && !isBegin && !isEnd) {
          gathering = new AbortController();
          await pause(gatherMs, AbortSignal.any([closing.signal, gathering.signal]));
        }
        await retry(send, { first: 100, longest: 2000, signal: patience, onFailure }).catch(giveUp);
      }
    };

    const start = (): void => {
      writing ??= write().finally(() => {
        writing = null;
        if (!isIdle()) start();
      });
    };

    return {
      isIdle,
      drop,
      add: (item: Item<Value>): void => {
        const last = backlog.pop();
        const joined = last === undefined ? null : (options.join?.(last.value, item.value) ?? null);
        if (last !== undefined && joined === null) backlog.add(last);
        backlog.add(joined ?? item);
        start();
      },
      mark: (what: "begin" | "end"): void => {
        if (what === "begin") isBegin = true;
        else isEnd = true;
        gathering?.abort();
        start();
      },
      settled: async (): Promise<void> => {
        await Promise.race([writing, failure.promise]);
      },
      done: async (): Promise<void> => {
        while (writing !== null) await writing;
      },
    };
  };

  const of = (id: string) => {
    const writer = writers.get(id) ?? create(id);
    writers.set(id, writer);
    return writer;
  };

  return {
    /** Never waits and never throws. */
    append: (id: string, item: Item<Value>): void => of(id).add(item),
    /** Removes what the log holds, and what waits. Resolves when that is done, or has failed and is tried again. */
    begin: async (id: string): Promise<void> => {
      const writer = of(id);
      writer.drop();
      writer.mark("begin");
      await writer.settled();
    },
    /** Nothing follows. Resolves when all is written or given up, or when that has failed and is tried again. */
    end: async (id: string): Promise<void> => {
      const writer = of(id);
      writer.mark("end");
      void writer.done().then(() => {
        if (writer.isIdle() && writers.get(id) === writer) writers.delete(id);
      });
      await writer.settled();
    },
    /** Whether this instance has nothing left to write to a log. */
    isIdle: (id: string): boolean => writers.get(id)?.isIdle() ?? true,
    /** Forgets what waits for a log. */
    drop: (id: string): void => {
      writers.get(id)?.drop();
      writers.delete(id);
    },
    /** Tries a last time to write what waits. */
    close: async (): Promise<void> => {
      closing.abort();
      await Promise.all(Array.from(writers.values(), (writer) => writer.done()));
      writers.clear();
    },
  };
};
