import { createHash } from "node:crypto";
import type { Cluster, Redis } from "ioredis";

export type KvClient = Redis | Cluster;

/**
 * PORT. The key-value store that the instances share, on a single server, behind Sentinels or in a Cluster. Keys of the job
 * store, the instances' locks and counts are in one hash slot, so that a script may change several of them.
 */
export type Kv = {
  /** For commands: they fail at once while the store is unreachable. */
  client: KvClient;
  /** A connection for commands that block; it waits for an unreachable store without limit. `close` closes it, too. */
  dedicated: () => KvClient;
  prefix: string;
  /** `{prefix:j}:part:part`: a key in the slot of the jobs. */
  jobKey: (...parts: string[]) => string;
  /** `prefix:part:part`: a key in a slot of its own. */
  key: (...parts: string[]) => string;
  /** Runs commands. @throws ServiceError `store_unavailable` for every failure */
  ask: <Value>(work: (client: KvClient) => Promise<Value>) => Promise<Value>;
  /** Rejects with `store_unavailable` unless the store answers and can be written to. */
  check: () => Promise<void>;
  /** The store's time. */
  now: () => Date;
  /** When the store last became reachable, ms of `performance.now()`. */
  backSince: () => number;
  /**
   * Has `restore` called before the first command, and before the first one to another server than before: a promoted
   * replica, or one that was restarted. It may lack the last writes. All others that call `ask` wait meanwhile.
   */
  onReplaced: (restore: Restore) => void;
  close: () => Promise<void>;
};

/** `ask` does not wait. `server`: the name of this start of it. */
export type Restore = (ask: Kv["ask"], server: string) => Promise<void>;

type Script = (
  client: KvClient,
  keys: readonly string[],
  args: readonly (string | Buffer)[],
) => Promise<unknown>;

/**
 * A Lua script, sent by its digest, and in full only to a server that does not have it. `keys` are all keys that it uses, in
 * one slot. Commands defined on the ioredis client would not do: a Cluster client routes them by the number of keys when
 * that number varies.
 */
export const createScript = (lua: string): Script => {
  const digest = createHash("sha1").update(lua).digest("hex");
  return async (client, keys, args) => {
    try {
      return await client.evalsha(digest, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return await client.eval(lua, keys.length, ...keys, ...args);
    }
  };
};
