import { randomUUID } from "node:crypto";
import type { Log } from "../lib/log.ts";
import { pause, retry } from "../lib/wait.ts";
import type { Batch, Fields, Logs } from "./logs.ts";

export type Item<Value> = {
  value: Value;
  size: number;
  /** When space is short, items of level 0 are left out first, then those of level 1, then the oldest. */
  level: 0 | 1 | 2 | 3;
};

/** Most that waits for one log: items, and their sizes together. */
type Limit = { items: number; size: number };

type Options<Value> = {
  logs: Logs;
  /** Whose events they are, in log messages. */
  noun: string;
  limit: Limit;
  /** How long items are collected before they are written, ms. */
  gatherMs?: number;
  /** Seconds until a log expires. */
  seconds: { ended: number; open: number };
  /** The size of a log before the first append, and the entry that it begins with when it is empty. */
  inspect: (id: string) => Promise<{ size: number; first: Fields | null }>;
  /** Makes entries of the items, given the size of the log in bytes. */
  encoder: (id: string) => (items: readonly Item<Value>[], size: number) => Fields[];
  /** Makes one item of two; null: they stay separate. */
  join?: (last: Value, next: Value) => Item<Value> | null;
  /** An item that says in the log that something before `newer` is left out. */
  leftOut?: (newer: Value) => Item<Value>;
  log: Log;
};

/** Most that is appended at once, by the sizes of the items. */
const batchSize = 256 * 1024;

/**
 * Writes logs in the background, each in order. A write that a shared store refuses is retried for as long as it takes; a
 * write that a file refuses is given up.
 */
export const createLogWriters = <Value>(options: Options<Value>) => {
  const { logs, noun, gatherMs = 0, log } = options;
  const writers = new Map<string, ReturnType<typeof create>>();
  const closing = new AbortController();
  const patience = logs.shared ? closing.signal : AbortSignal.abort();

  const create = (id: string) => {
    const encode = options.encoder(id);
    const backlog = createBacklog<Value>(options.limit, ({ value }) => {
      log.warn({ [noun]: id }, `too many events of a ${noun} wait to be written; the oldest are left out`);
      if (options.leftOut !== undefined) backlog.add(options.leftOut(value));
    });
    const writer = randomUUID();
    let batches = 0;
    let known: Awaited<ReturnType<typeof options.inspect>> | null = null;
    let isReset = false;
    let isEnd = false;
    let batch: Batch | null = null;
    let writing: Promise<void> | null = null;
    let gathering: AbortController | null = null;
    let failure = Promise.withResolvers<void>();
    let lastMessage = "";

    const isIdle = (): boolean => batch === null && backlog.isEmpty() && !isReset && !isEnd;

    const drop = (): void => {
      backlog.take(Infinity);
      [isReset, isEnd, batch] = [false, false, null];
    };

    const nextBatch = async (): Promise<Batch | null> => {
      known ??= await options.inspect(id);
      if (isIdle()) return null;
      const entries = encode(backlog.take(batchSize), known.size);
      const isLast = isEnd && backlog.isEmpty();
      const seconds = isLast ? options.seconds.ended : options.seconds.open;
      const [reset, { first }] = [isReset, known];
      const next = {
        name: `${writer}:${(batches += 1)}`,
        isRetry: false,
        reset,
        first,
        entries,
        isEnd: isLast,
        seconds,
      };
      isReset = false;
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
        sent.isRetry = true;
      }
      // `drop` may have replaced it meanwhile.
      if (batch === sent) batch = null;
      backlog.written();
      lastMessage = "";
    };

    const logOnce = (level: "warn" | "error", err: unknown, message: string): void => {
      if (lastMessage !== message) log[level]({ err, [noun]: id }, message);
      lastMessage = message;
    };

    const onFailure = (err: unknown): void => {
      logOnce("warn", err, `events of a ${noun} cannot be written at present; they wait`);
      failure.resolve();
      failure = Promise.withResolvers();
    };

    const giveUp = (err: unknown): void => {
      logOnce("error", err, `events of a ${noun} could not be written; they are missing`);
      drop();
    };

    const write = async (): Promise<void> => {
      // Items that are added in the same tick go in one batch.
      await Promise.resolve();
      while (!isIdle()) {
        if (gatherMs > 0 && !isReset && !isEnd) {
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
      mark: (what: "reset" | "end"): void => {
        if (what === "reset") isReset = true;
        else isEnd = true;
        gathering?.abort();
        start();
      },
      /** Resolves when all is written, or a write has failed. */
      settled: async (): Promise<void> => {
        await Promise.race([writing, failure.promise]);
      },
      done: async (): Promise<void> => {
        while (writing !== null) await writing;
      },
    };
  };

  const writerOf = (id: string) => {
    const writer = writers.get(id) ?? create(id);
    writers.set(id, writer);
    return writer;
  };

  return {
    /** Never waits and never throws. */
    append: (id: string, item: Item<Value>): void => writerOf(id).add(item),
    /** Removes what the log holds and what waits. Resolves when that is done, or has failed and is retried. */
    reset: async (id: string): Promise<void> => {
      const writer = writerOf(id);
      writer.drop();
      writer.mark("reset");
      await writer.settled();
    },
    /** Ends the log. Resolves when all is written or given up, or when that has failed and is retried. */
    end: async (id: string): Promise<void> => {
      const writer = writerOf(id);
      writer.mark("end");
      void writer.done().then(() => {
        if (writer.isIdle() && writers.get(id) === writer) writers.delete(id);
      });
      await writer.settled();
    },
    /** Whether this instance has nothing left to write to a log. */
    isIdle: (id: string): boolean => writers.get(id)?.isIdle() ?? true,
    /** Discards what waits for a log. */
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

/** Items that wait to be written. `onLeftOut` is called when one is left out, the first time since `written`. */
const createBacklog = <Value>(limit: Limit, onLeftOut: (newer: Item<Value>) => void) => {
  let items: Item<Value>[] = [];
  let size = 0;
  let isShort = false;

  const isTooMuch = (): boolean => items.length > 1 && (items.length > limit.items || size > limit.size);

  const makeRoom = (newer: Item<Value>): void => {
    for (const lowest of [0, 1]) {
      if (!isTooMuch()) continue;
      items = items.filter(({ level }) => level > lowest);
      size = items.reduce((sum, item) => sum + item.size, 0);
    }
    while (isTooMuch()) size -= items.shift()?.size ?? 0;
    if (isShort) return;
    isShort = true;
    onLeftOut(newer);
  };

  return {
    add: (item: Item<Value>): void => {
      items.push(item);
      size += item.size;
      if (isTooMuch()) makeRoom(item);
    },
    /** Removes and returns the newest. */
    pop: (): Item<Value> | undefined => {
      const item = items.pop();
      size -= item?.size ?? 0;
      return item;
    },
    /** Removes and returns the oldest, of about that size together and at least one. */
    take: (max: number): Item<Value>[] => {
      let total = 0;
      const end = items.findIndex((item, at) => (total += item.size) > max && at > 0);
      const oldest = items.splice(0, end === -1 ? items.length : end);
      size -= oldest.reduce((sum, item) => sum + item.size, 0);
      return oldest;
    },
    isEmpty: (): boolean => items.length === 0,
    written: (): void => void (isShort = false),
  };
};
