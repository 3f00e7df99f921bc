import { randomUUID } from "node:crypto";
import type { Log } from "../lib/log.ts";
import { pause, retry } from "../lib/retry.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import type { Batch, Logs } from "./logs.ts";

/** What waits to be appended to one log. */
export type Outbox = {
  isEmpty: () => boolean;
  /** Takes the next batch; null when nothing waits any more. When it rejects it is asked again later. */
  take: () => Promise<Omit<Batch, "name" | "again"> | null>;
  /** Called when a batch was written, with the size of the log. */
  written: (size: number) => void;
  clear: () => void;
};

type Options<Box extends Outbox> = {
  logs: Logs;
  open: (id: string) => Box;
  /** How long entries gather before they are written, ms. */
  gatherMs?: number;
  /** What it is whose events are written. */
  noun: string;
  log: Log;
};

/**
 * Writes logs in the background, each in its order and for as long as it takes: what a shared store does not take at
 * present waits and is sent again. What a file does not take is left out.
 */
export const createLogWriters = <Box extends Outbox>(options: Options<Box>) => {
  const { logs, open, gatherMs = 0, noun, log } = options;
  const writers = new Map<string, ReturnType<typeof create>>();
  const warnings = createWarnOnce();
  const closing = new AbortController();
  const patience = logs.shared ? closing.signal : AbortSignal.abort();

  const create = (id: string) => {
    const box = open(id);
    let batch: Batch | null = null;
    let writing: Promise<void> | null = null;
    let hurry = new AbortController();
    let failure = Promise.withResolvers<void>();

    const isIdle = (): boolean => batch === null && box.isEmpty();

    const send = async (): Promise<void> => {
      if (batch === null) {
        const taken = await box.take();
        if (taken === null) return;
        batch = { name: randomUUID(), again: false, ...taken };
      }
      const sent = batch;
      const size = await logs.append(id, sent).catch((error: unknown) => {
        sent.again = true;
        throw error;
      });
      // Dropped meanwhile, it may have been followed by another.
      if (batch === sent) batch = null;
      box.written(size);
      warnings.isWell(id);
    };

    const onFailure = (err: unknown): void => {
      const say = `the events of a ${noun} cannot be written at present; they wait`;
      warnings.once(id, () => log.warn({ err, [noun]: id }, say));
      failure.resolve();
      failure = Promise.withResolvers();
    };

    const drop = (): void => {
      box.clear();
      batch = null;
    };

    const giveUp = (err: unknown): void => {
      const say = `events of a ${noun} could not be written; they are missing`;
      warnings.once(`${id} lost`, () => log.error({ err, [noun]: id }, say));
      drop();
    };

    const write = async (): Promise<void> => {
      // What comes in one breath goes in one batch.
      await Promise.resolve();
      while (!isIdle()) {
        if (gatherMs > 0) await pause(gatherMs, AbortSignal.any([closing.signal, hurry.signal]));
        hurry = new AbortController();
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
      box,
      isIdle,
      /** Something has come to the box. `isLast`: nothing is worth waiting for. */
      start: (isLast = false): void => {
        if (isLast) hurry.abort();
        start();
      },
      /** Forgets what waits. */
      drop,
      /** Resolves when all is written or given up, or when that has failed once more and is tried again. */
      settled: async (): Promise<void> => {
        await Promise.race([writing, failure.promise]);
      },
      /** Resolves when all is written or given up. */
      done: async (): Promise<void> => {
        while (writing !== null) await writing;
      },
    };
  };

  return {
    of: (id: string) => {
      const writer = writers.get(id) ?? create(id);
      writers.set(id, writer);
      return writer;
    },
    /** Whether this instance has nothing left to write to a log. */
    isIdle: (id: string): boolean => writers.get(id)?.isIdle() ?? true,
    /** Forgets a writer when it has written all. */
    release: async (id: string): Promise<void> => {
      const writer = writers.get(id);
      await writer?.done();
      if (writer?.isIdle() === true && writers.get(id) === writer) writers.delete(id);
    },
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
