import { randomUUID } from "node:crypto";
import type { Kv } from "../../kv/kv.ts";
import type { Lock, Locks } from "../locks.ts";
import { createScript } from "./script.ts";

type Held = {
  key: string;
  token: string;
  lost: AbortController;
  /** Fires when the lease is over by our own clock, whatever the store would say. */
  deadline: NodeJS.Timeout;
};

/** What an earlier start of the same instance held is nobody's any more: the instance has its name by a lease of its own. */
const taking = createScript(`
local holder = redis.call('GET', KEYS[1])
local isEarlier = holder and string.sub(holder, 1, #ARGV[3]) == ARGV[3] and string.sub(holder, 1, #ARGV[4]) ~= ARGV[4]
if holder and not isEarlier then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`);

const renewal = createScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);

const release = createScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`);

type Options = { kv: Kv; leaseSeconds: number; owner: { podName: string; epoch: string } };

/** A key with a lease for each lock, renewed every quarter of `leaseSeconds` while it is held. Names may be any text. */
export const createRedisLocks = ({ kv, leaseSeconds, owner }: Options): Locks => {
  const lease = leaseSeconds * 1000;
  const ofInstance = `${owner.podName}/`;
  const ofStart = `${ofInstance}${owner.epoch}/`;
  const held = new Set<Held>();

  const lose = (lock: Held): void => {
    clearTimeout(lock.deadline);
    if (held.delete(lock)) lock.lost.abort(new Error("the lock could not be kept"));
  };

  /** The lease counts from when it was asked for: the store's may end a little later, never earlier. */
  const deadline = (lock: () => Held, asked: number): NodeJS.Timeout =>
    setTimeout(() => lose(lock()), asked + lease - performance.now());

  const renew = async (lock: Held): Promise<void> => {
    const asked = performance.now();
    const kept = await kv.ask((client) => renewal(client, [lock.key], [lock.token, String(lease)]));
    if (!held.has(lock)) return;
    if (kept !== 1) return lose(lock);
    clearTimeout(lock.deadline);
    lock.deadline = deadline(() => lock, asked);
  };

  const timer = setInterval(() => {
    // One that fails is tried again at the next turn, until the deadline.
    for (const lock of held) renew(lock).catch(() => undefined);
  }, lease / 4);
  timer.unref();

  const giveBack = async (key: string, token: string): Promise<void> => {
    await kv.ask((client) => release(client, [key], [token])).catch(() => undefined);
  };

  const end = async (lock: Held): Promise<void> => {
    clearTimeout(lock.deadline);
    if (held.delete(lock)) await giveBack(lock.key, lock.token);
  };

  return {
    take: async (name): Promise<Lock | null> => {
      const key = kv.jobKey("lock", name);
      const token = ofStart + randomUUID();
      const asked = performance.now();
      const answer = await kv
        .ask((client) => taking(client, [key], [token, String(lease), ofInstance, ofStart]))
        .catch((error: unknown) => {
          // It may have been taken although the answer was lost.
          void giveBack(key, token);
          throw error;
        });
      if (answer !== 1) return null;
      const lost = new AbortController();
      const lock: Held = { key, token, lost, deadline: deadline(() => lock, asked) };
      held.add(lock);
      return { release: () => end(lock), lost: lost.signal };
    },

    close: async () => {
      clearInterval(timer);
      await Promise.all(Array.from(held, end));
    },
  };
};
