import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import { poll } from "../lib/wait.ts";
import type { Lock, Locks } from "../store/locks.ts";
import { endedBy } from "./failure.ts";

/** A conversation reserved for one turn until released. */
export type HeldConversation = { release: () => Promise<void>; lost: AbortSignal };

/**
 * Allows one turn at a time per conversation, across all instances. One more may wait; further ones are refused at
 * once, so that one conversation cannot use up all permits.
 */
export const createConversationTurns = (locks: Pick<Locks, "take">) => {
  /** Turns of this instance that hold a conversation or wait for it. */
  const present = new Map<string, number>();

  const leave = (key: string): void => {
    const others = (present.get(key) ?? 1) - 1;
    if (others === 0) present.delete(key);
    else present.set(key, others);
  };

  return {
    /** @throws ServiceError `conversation_busy` when it was not free in time; the reason of the signal */
    hold: async (key: string, seconds: number, signal: AbortSignal): Promise<HeldConversation> => {
      const others = present.get(key) ?? 0;
      if (others > 1) throw busy("has an answer under way and another one waiting");
      present.set(key, others + 1);
      try {
        const deadline = performance.now() + seconds * 1000;
        // Nothing announces the end of a turn, which may be another instance's.
        const lock = await poll(() => locks.take(nameOf(key)), { ...pauses, signal, deadline });
        if (lock === null) throw busy("was not free in time");
        const { lost, release } = retake(locks, key, lock);
        return { lost, release: () => release().finally(() => leave(key)) };
      } catch (error) {
        leave(key);
        throw signal.aborted ? endedBy(signal) : error;
      }
    },
  };
};

const nameOf = (key: string): string => `conv:${key}`;

/** Between attempts to take a lock, ms. */
const pauses = { first: 20, longest: 150 };

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
      await delay(pauses.longest, undefined, { ref: false });
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

const busy = (why: string): ServiceError =>
  new ServiceError(
    "conversation_busy",
    `The conversation ${why}; ask again when its answer is there, or stop that one`,
  );
