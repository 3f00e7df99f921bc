import { randomUUID } from "node:crypto";
import type { Kv } from "../kv/kv.ts";
import type { Lock, Locks } from "./locks.ts";
import { createRedisLeases } from "./redis-leases.ts";

type Held = {
  name: string;
  token: string;
  lost: AbortController;
  /** Fires when the lease is over by our own clock, whatever the store would say. */
  deadline: NodeJS.Timeout;
};

type Options = { kv: Kv; leaseSeconds: number; owner: { podName: string; epoch: string } };

/** A key with a lease for each lock, renewed every quarter of `leaseSeconds` while it is held. Names may be any text. */
export const createRedisLocks = ({ kv, leaseSeconds, owner }: Options): Locks => {
  const ms = leaseSeconds * 1000;
  const ofInstance = `${owner.podName}/`;
  const ofStart = `${ofInstance}${owner.epoch}/`;
  const held = new Set<Held>();
  const leases = createRedisLeases(kv, (name) => kv.jobKey("lock", name));

  const lose = (lock: Held): void => {
    clearTimeout(lock.deadline);
    if (held.delete(lock)) lock.lost.abort(new Error("the lock could not be kept"));
  };

  /** The lease counts from when it was asked for: the store's may end a little later, never earlier. */
  const deadline = (lock: () => Held, asked: number): NodeJS.Timeout =>
    setTimeout(() => lose(lock()), asked + ms - performance.now());

  const renew = async (lock: Held): Promise<void> => {
    const asked = performance.now();
    const { name, token } = lock;
    const result = await leases.renew(name, { mark: token, text: token, ms, anew: false });
    if (!held.has(lock)) return;
    if (result !== "renewed") return lose(lock);
    clearTimeout(lock.deadline);
    lock.deadline = deadline(() => lock, asked);
  };

  const timer = setInterval(() => {
    // One that fails is tried again at the next turn, until the deadline.
    for (const lock of held) renew(lock).catch(() => undefined);
  }, ms / 4);
  timer.unref();

  const giveBack = (name: string, token: string): Promise<void> =>
    leases.release(name, token).catch(() => undefined);

  /** What an earlier start of the same instance held is nobody's any more: the instance has its name by a lease of its own. */
  const isEarlier = (holder: string): boolean => holder.startsWith(ofInstance) && !holder.startsWith(ofStart);

  const takeLease = async (name: string, token: string): Promise<boolean> => {
    if (await leases.take(name, { seen: null, text: token, ms })) return true;
    const seen = await leases.get(name);
    return seen !== null && isEarlier(seen) && (await leases.take(name, { seen, text: token, ms }));
  };

  const end = async (lock: Held): Promise<void> => {
    clearTimeout(lock.deadline);
    if (held.delete(lock)) await giveBack(lock.name, lock.token);
  };

  return {
    take: async (name): Promise<Lock | null> => {
      const token = ofStart + randomUUID();
      const asked = performance.now();
      const taken = await takeLease(name, token).catch((error: unknown) => {
        // It may have been taken although the reply was lost.
        void giveBack(name, token);
        throw error;
      });
      if (!taken) return null;
      const lost = new AbortController();
      const lock: Held = { name, token, lost, deadline: deadline(() => lock, asked) };
      held.add(lock);
      return { release: () => end(lock), lost: lost.signal };
    },

    close: async () => {
      clearInterval(timer);
      await Promise.all(Array.from(held, end));
    },
  };
};
