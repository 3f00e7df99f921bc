import type { Cluster, Redis } from "ioredis";

export type KvClient = Redis | Cluster;

/**
 * The key-value store that the instances share. Keys of the job store, the instances' locks and counts lie in one hash
 * slot, so that a script may touch several of them, on a single server and in a Cluster alike.
 */
export type Kv = {
  /** For commands: fails at once while the store is away. */
  client: KvClient;
  /** A connection of its own, for commands that block; waits for the store however long it is away. Closed with the rest. */
  dedicated: () => KvClient;
  prefix: string;
  /** `{prefix:j}:part:part`: a key in the slot of the jobs. */
  jobKey: (...parts: string[]) => string;
  /** `prefix:part:part`: a key in a slot of its own. */
  key: (...parts: string[]) => string;
  /** Runs commands. @throws ServiceError `store_unavailable` for whatever goes wrong */
  ask: <Value>(work: (client: KvClient) => Promise<Value>) => Promise<Value>;
  /** Rejects with `store_unavailable` unless the store answers and can be written to. */
  check: () => Promise<void>;
  /** The store's time. */
  now: () => Date;
  /** When the store last became reachable after it had been away; ms of `performance.now()`. */
  backSince: () => number;
  close: () => Promise<void>;
};
