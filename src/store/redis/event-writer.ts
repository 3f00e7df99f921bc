import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentEvent, StageEvent } from "../../contract/event.ts";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import { createBudget } from "../event-budget.ts";
import { appendBatch, endOf, type Batch } from "./event-scripts.ts";
import { createPendingEvents } from "./pending-events.ts";

type Options = {
  kv: Kv;
  key: string;
  jobId: string;
  maxBytes: number;
  expireSeconds: number;
  /** The first event of the log as JSON, should it be empty; "" when there is none. */
  first: () => Promise<string>;
  /** Called when something was written. */
  changed: () => void;
  log: Log;
  closing: AbortSignal;
};

/** Most that waits for the store, per job, and goes to it at once; bytes. */
const pendingLimit = 4 * 1024 * 1024;
const batchSize = 256 * 1024;

/** Longest wait before the store is tried again, ms. */
const longestWait = 2000;

/**
 * How long the first events of a log wait for more, ms, and at most twice that: those of a job that is over at once go in
 * one, and those of several jobs in the same breath.
 */
const gathering = 5;
let breath = { ends: 0, over: Promise.resolve() };

const nextBreath = (): Promise<void> => {
  const ends = Math.ceil(performance.now() / gathering + 1) * gathering;
  if (ends !== breath.ends) breath = { ends, over: delay(ends - performance.now()) };
  return breath.over;
};

/**
 * Writes the log of one job, in the background and for as long as it takes: what the store does not take at present
 * waits in memory and is tried again, until `closing` aborts.
 */
export const createEventWriter = (options: Options) => {
  const { kv, key, jobId, log, closing } = options;
  const pending = createPendingEvents(pendingLimit);
  const budget = createBudget(options.maxBytes);
  const writer = randomUUID();
  let batches = 0;
  let batch: Batch | null = null;
  let ending = false;
  /** Size of the log, as far as it is known: the store tells it with each batch. */
  let size = 0;
  /** The first event of the log, to be sent along until the log is known not to be empty; null: to be asked for. */
  let first: string | null = null;
  let mayBeEmpty = true;
  let flushing: Promise<void> | null = null;
  let attempt = Promise.withResolvers<void>();

  const isIdle = (): boolean => batch === null && pending.isEmpty() && !ending;

  const nextBatch = (): Batch => {
    const lines: string[] = [];
    let grown = size;
    for (const { at, attempt: number, event } of pending.take(batchSize)) {
      for (const kept of budget(event, grown)) {
        const line = JSON.stringify({ at, attempt: number, ...kept });
        grown += Buffer.byteLength(line);
        lines.push(line);
      }
    }
    const isEnd = ending && pending.isEmpty();
    if (isEnd) ending = false;
    return { name: `${writer}:${(batches += 1)}`, again: false, lines, isEnd };
  };

  /** A log that somebody else has begun may be long. */
  const measure = async (): Promise<void> => {
    const end = await endOf(kv, key);
    mayBeEmpty = end === null;
    size = end?.size ?? 0;
    first = end === null ? await options.first() : "";
  };

  const writeSome = async (): Promise<void> => {
    if (first === null) await measure();
    batch ??= nextBatch();
    const { expireSeconds } = options;
    size = await appendBatch(kv, key, {
      batch: { ...batch },
      first: mayBeEmpty ? (first ?? "") : "",
      expireSeconds,
    });
    mayBeEmpty = false;
    batch = null;
    pending.written();
    options.changed();
  };

  const giveUp = (err: unknown): void => {
    log.error({ err, job: jobId }, "the event log cannot be written at the end; events are missing");
    pending.take(Infinity);
    batch = null;
    ending = false;
  };

  const flush = async (): Promise<void> => {
    if (batches === 0) await nextBreath();
    for (let failures = 0; !isIdle();) {
      try {
        await writeSome();
        failures = 0;
      } catch (err) {
        if (batch !== null) batch.again = true;
        // What is known of the log may be wrong by now: the store may have come back without its latest writes.
        mayBeEmpty = true;
        if (failures === 0)
          log.warn({ err, job: jobId }, "the event log cannot be written at present; its events wait");
        failures += 1;
        attempt.resolve();
        attempt = Promise.withResolvers();
        if (closing.aborted) return giveUp(err);
        const wait = Math.min(100 * 2 ** failures, longestWait);
        await delay(wait, undefined, { signal: closing }).catch(() => undefined);
      }
    }
  };

  const start = (): void => {
    flushing ??= flush().finally(() => {
      flushing = null;
      if (!isIdle()) start();
    });
  };

  return {
    append: (at: string, number: number, event: AgentEvent | StageEvent): void => {
      if (!pending.add(at, number, event))
        log.warn({ job: jobId }, "too many events wait for the key-value store; some are left out");
      start();
    },
    /** The first event of the log as JSON, which then need not be asked for. */
    knowFirst: (line: string): void => void (first ??= line),
    /** Writes the first event of a log that has none. */
    begin: async (): Promise<void> => {
      const line = await options.first();
      if (line === "") return;
      const { expireSeconds } = options;
      const none = { name: `${writer}:begin`, again: false, lines: [], isEnd: false };
      await appendBatch(kv, key, { batch: none, first: line, expireSeconds });
      options.changed();
    },
    /** The end of the log is to be marked when all is written. */
    end: (): void => {
      ending = true;
      start();
    },
    /** Whether all is written. */
    isIdle,
    /** Resolves when all is written, or when that has failed once more and waits. */
    settled: async (): Promise<void> => {
      await Promise.race([flushing, attempt.promise]);
    },
    /** Resolves when all is written or given up. */
    done: async (): Promise<void> => {
      while (flushing !== null) await flushing;
    },
    /** Forgets what waits. */
    drop: (): void => {
      pending.take(Infinity);
      batch = null;
      ending = false;
    },
  };
};

export type EventWriter = ReturnType<typeof createEventWriter>;
