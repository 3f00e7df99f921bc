import { randomUUID } from "node:crypto";
import { createScript, type Kv } from "../kv/kv.ts";
import type { Lock, Locks } from "./locks.ts";

/** Arguments: the text seen (empty: none), the new text, ms. Answers 1, or 0 when the key holds something else. */
const take = createScript(`
local found = redis.call('GET', KEYS[1])
if found ~= ARGV[2] and (found or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`);

/** Arguments: the holder's mark, the text, ms, whether an expired lease is taken anew. */
const renew = createScript(`
local found = redis.call('GET', KEYS[1])
if found and not string.find(found, ARGV[1], 1, true) then return 'taken' end
if found or ARGV[4] == '1' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return found and 'renewed' or 'lapsed'`);

/** Argument: the holder's mark. */
const release = createScript(`
local found = redis.call('GET', KEYS[1])
if not found or not string.find(found, ARGV[1], 1, true) then return 0 end
return redis.call('DEL', KEYS[1])`);

/**
 * `lapsed`: the lease had expired and was taken anew in the same step; other instances may have settled this one's jobs.
 * `taken`: another start has the name now, and keeps it.
 */
export type Renewal = "renewed" | "lapsed" | "taken";

/**
 * Leases: a key each, which expires unless it is renewed. Its text describes the holder, who recognizes its own lease by a
 * mark in the text. Every function rejects with `ServiceError("store_unavailable")`.
 */
export const createRedisLeases = (kv: Kv, keyOf: (name: string) => string) => ({
  get: (name: string): Promise<string | null> => kv.ask((client) => client.get(keyOf(name))),
  /** Time until it expires, ms. */
  left: (name: string): Promise<number> => kv.ask((client) => client.pttl(keyOf(name))),
  /** Takes the lease while its text is still `seen` (null: it is free). False: the text has changed. */
  take: async (name: string, { seen, text, ms }: { seen: string | null; text: string; ms: number }) =>
    (await kv.ask((client) => take(client, [keyOf(name)], [seen ?? "", text, String(ms)]))) === 1,
  /** `anew`: an expired lease is taken in the same step. */
  renew: async (
    name: string,
    { mark, text, ms, anew }: { mark: string; text: string; ms: number; anew: boolean },
  ): Promise<Renewal> => {
    const args = [mark, text, String(ms), anew ? "1" : "0"];
    return (await kv.ask((client) => renew(client, [keyOf(name)], args))) as Renewal;
  },
  /** False, and nothing done, when the holder does not have the lease. */
  release: async (name: string, mark: string): Promise<boolean> =>
    (await kv.ask((client) => release(client, [keyOf(name)], [mark]))) === 1,
});

type LockOptions = { kv: Kv; leaseSeconds: number; owner: { podName: string; epoch: string } };

/** Each lock is a lease, renewed every quarter of `leaseSeconds`. Names may be any text. */
export const createRedisLocks = ({ kv, leaseSeconds, owner }: LockOptions): Locks => {
  const ms = leaseSeconds * 1000;
  const instancePrefix = `${owner.podName}/`;
  const startPrefix = `${instancePrefix}${owner.epoch}/`;
  const releases = new Set<Lock["release"]>();
  const leases = createRedisLeases(kv, (name) => kv.jobKey("lock", name));

  const releaseLease = (name: string, token: string): Promise<unknown> =>
    leases.release(name, token).catch(() => undefined);

  /** Locks of an earlier start of this instance are free: the instance has its name by a lease of its own. */
  const isEarlierStart = (token: string): boolean =>
    token.startsWith(instancePrefix) && !token.startsWith(startPrefix);

  const takeLease = async (name: string, token: string): Promise<boolean> => {
    if (await leases.take(name, { seen: null, text: token, ms })) return true;
    const seen = await leases.get(name);
    return seen !== null && isEarlierStart(seen) && (await leases.take(name, { seen, text: token, ms }));
  };

  /** The lease counts from the moment it was requested, so that our deadline is never later than the store's. */
  const hold = (name: string, token: string, requestedAt: number): Lock => {
    const lost = new AbortController();
    const stop = (): void => {
      clearTimeout(deadline);
      clearInterval(renewals);
      releases.delete(release);
    };
    const lose = (): void => {
      stop();
      lost.abort(new Error("the lock could not be renewed"));
    };
    const loseAfter = (start: number): NodeJS.Timeout => setTimeout(lose, start + ms - performance.now());

    const renewLease = async (): Promise<void> => {
      const start = performance.now();
      const result = await leases.renew(name, { mark: token, text: token, ms, anew: false });
      if (!releases.has(release)) return;
      if (result !== "renewed") return lose();
      clearTimeout(deadline);
      deadline = loseAfter(start);
    };

    const release = async (): Promise<void> => {
      if (!releases.has(release)) return;
      stop();
      await releaseLease(name, token);
    };

    let deadline = loseAfter(requestedAt);
    // A renewal that fails is tried again at the next interval, until the deadline.
    const renewals = setInterval(() => void renewLease().catch(() => undefined), ms / 4);
    renewals.unref();
    releases.add(release);
    return { release, lost: lost.signal, [Symbol.asyncDispose]: release };
  };

  return {
    take: async (name) => {
      const token = startPrefix + randomUUID();
      const requestedAt = performance.now();
      const isTaken = await takeLease(name, token).catch((error: unknown) => {
        // The command may have succeeded although the reply was lost.
        void releaseLease(name, token);
        throw error;
      });
      return isTaken ? hold(name, token, requestedAt) : null;
    },

    close: async () => {
      await Promise.all(Array.from(releases, (release) => release()));
    },
  };
};
