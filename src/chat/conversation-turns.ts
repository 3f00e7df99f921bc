import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import { orAborted } from "../lib/wait.ts";
import type { Lock, Locks } from "../store/locks.ts";
import { endedBy } from "./failure.ts";

/** A conversation reserved for one turn until released. */
export type HeldConversation = { release: () => Promise<void>; lost: AbortSignal };

/**
 * Allows one turn at a time per conversation, across all instances. One more may wait; further ones are refused at
 * once, so that one conversation cannot use up all permits.
 */
export const createConversationTurns = (locks: Pick<Locks, "take">) => {
  const queues = new Map<string, Promise<void>[]>();

  const queueUp = async (key: string, wait: Wait): Promise<() => void> => {
    const before = queues.get(key) ?? [];
    if (before.length > maxWaiting) throw busy("has an answer under way and another one waiting");
    const { promise, resolve } = Promise.withResolvers<void>();
    queues.set(key, [...before, promise]);
    const leave = (): void => {
      const rest = (queues.get(key) ?? []).filter((each) => each !== promise);
      if (rest.length === 0) queues.delete(key);
      else queues.set(key, rest);
      resolve();
    };
    try {
      await within(Promise.all(before), wait);
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  };

  const held = (key: string, lock: Lock, leave: () => void): HeldConversation => {
    const kept = retake(locks, key, lock);
    const release = async (): Promise<void> => {
      await kept.release();
      leave();
    };
    return { release, lost: kept.lost };
  };

  return {
    /** @throws ServiceError `conversation_busy` when it was not free in time; the reason of the signal */
    hold: async (key: string, seconds: number, signal: AbortSignal): Promise<HeldConversation> => {
      const wait = { until: performance.now() + seconds * 1000, signal };
      const leave = await queueUp(key, wait);
      try {
        for (;;) {
          const lock = await locks.take(nameOf(key));
          if (lock !== null) return held(key, lock, leave);
          // Another instance has it. Nothing announces its end, so poll.
          await within(delay(pollMs), wait);
        }
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
};

const nameOf = (key: string): string => `conv:${key}`;

/**
 * A lock that is taken again when it lapsed during an outage of the store, so that the answer survives. It is lost
 * only when another holder has it then.
 */
const retake = (locks: Pick<Locks, "take">, key: string, first: Lock): HeldConversation => {
  const lost = new AbortController();
  let lock = first;
  let isReleased = false;

  const regain = async (): Promise<void> => {
    while (!isReleased) {
      const again = await locks.take(nameOf(key)).catch(() => undefined);
      if (again === null) return lost.abort();
      if (again !== undefined) return use(again);
      await delay(pollMs, undefined, { ref: false });
    }
  };
  const use = (taken: Lock): void => {
    lock = taken;
    if (isReleased) return void lock.release();
    lock.lost.addEventListener("abort", () => void regain(), { once: true });
  };
  use(first);

  return {
    lost: lost.signal,
    release: async () => {
      isReleased = true;
      await lock.release();
    },
  };
};

type Wait = { until: number; signal: AbortSignal };

const maxWaiting = 1;
const pollMs = 150;

/** Rejects when the time is up or the signal aborts first. */
const within = async (event: Promise<unknown>, { until, signal }: Wait): Promise<void> => {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), Math.min(2 ** 31 - 1, Math.max(0, until - performance.now())));
  try {
    await orAborted(event, AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (signal.aborted) throw endedBy(signal);
    throw late.signal.aborted ? busy("was not free in time") : error;
  } finally {
    clearTimeout(timer);
  }
};

const busy = (why: string): ServiceError =>
  new ServiceError(
    "conversation_busy",
    `The conversation ${why}; ask again when its answer is there, or stop that one`,
  );
