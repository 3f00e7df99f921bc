import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import type { BusEvent } from "../event-bus.ts";
import { createPendingBusEvents } from "../pending-bus-events.ts";
import { appendToBus, type BusBatch } from "./bus-scripts.ts";

type Options = {
  kv: Kv;
  key: string;
  /** How long pieces gather, ms. */
  gatherMs: number;
  /** Called when something was written. */
  changed: () => void;
  log: Log;
  /** Once aborted, what cannot be written is given up. */
  closing: AbortSignal;
};

/** Longest wait before the store is tried again, ms. */
const longestWait = 2000;

/** Writes the events of one completion in the background and in their order; what the store does not take is tried again. */
export const createBusWriter = ({ kv, key, gatherMs, changed, log, closing }: Options) => {
  const pending = createPendingBusEvents();
  let isFirst = false;
  let batch: BusBatch | null = null;
  let flushing: Promise<void> | null = null;
  let hurry = new AbortController();
  let attempt = Promise.withResolvers<void>();
  let leftOut = false;

  const isIdle = (): boolean => batch === null && pending.isEmpty() && !isFirst;

  const writeSome = async (): Promise<void> => {
    if (batch === null || isFirst) {
      batch = { name: randomUUID(), isFirst, events: pending.take() };
      isFirst = false;
    }
    const sent = batch;
    await appendToBus(kv, key, sent);
    // Begun anew meanwhile: what was written is removed by the next one.
    if (batch === sent) batch = null;
    leftOut = false;
    changed();
  };

  const failed = async (err: unknown, failures: number): Promise<boolean> => {
    if (failures === 1)
      log.warn({ err, key }, "events of a completion cannot be written at present; they wait");
    attempt.resolve();
    attempt = Promise.withResolvers();
    if (closing.aborted) {
      log.warn({ key }, "events of a completion could not be written at the end; they are missing");
      pending.take();
      batch = null;
      isFirst = false;
      return false;
    }
    const wait = Math.min(50 * 2 ** failures, longestWait);
    await delay(wait, undefined, { signal: closing }).catch(() => undefined);
    return true;
  };

  const flush = async (): Promise<void> => {
    for (let failures = 0; !isIdle();) {
      if (failures === 0)
        await delay(gatherMs, undefined, { signal: AbortSignal.any([closing, hurry.signal]) }).catch(
          () => undefined,
        );
      hurry = new AbortController();
      try {
        await writeSome();
        failures = 0;
      } catch (err) {
        failures += 1;
        if (!(await failed(err, failures))) return;
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
    /** What the stream holds is to be removed, and what waits is forgotten. Resolves when it is, or when that has failed and is tried again. */
    begin: async (): Promise<void> => {
      pending.take();
      isFirst = true;
      hurry.abort();
      start();
      const { promise } = attempt;
      while (isFirst || batch?.isFirst === true) {
        const failure = Symbol("failure");
        if ((await Promise.race([flushing, promise.then(() => failure)])) === failure) return;
      }
    },
    add: (event: BusEvent): void => {
      if (!pending.add(event) && !leftOut) {
        leftOut = true;
        log.warn(
          { key },
          "too many events of a completion wait for the key-value store; the oldest are left out",
        );
      }
      if (event.event_type === "done") hurry.abort();
      start();
    },
    isIdle,
    /** Resolves when all is written or given up. */
    done: async (): Promise<void> => {
      while (flushing !== null) await flushing;
    },
  };
};

export type BusWriter = ReturnType<typeof createBusWriter>;
