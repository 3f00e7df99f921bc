import type { Cluster, Redis } from "ioredis";
import type { KvAddress } from "../config/kv-url.ts";
import type { KvClient } from "./kv.ts";

/** Streams, `LMOVE` and what the queue's scripts use came with this version. */
const oldest = [6, 2] as const;

/**
 * Whether jobs can be entrusted to this store: one that may throw keys away when its memory is full would lose them.
 * Resolves to what the operator should know about it, a sentence each.
 * @throws Error with a sentence for the operator
 */
export const checkServer = async (client: KvClient, { mode, database }: KvAddress): Promise<string[]> => {
  const warnings = new Set<string>();
  // The client goes on with number 0 when there is no such database: that may be somebody else's.
  if (mode !== "cluster") await (client as Redis).select(database).catch(noSuchDatabase(database));
  const nodes = mode === "cluster" ? (client as Cluster).nodes("master") : [client];
  for (const node of nodes) {
    const info = parse(await node.info());
    checkVersion(info.get("redis_version") ?? "");
    const policy = info.get("maxmemory_policy") ?? "noeviction";
    if (policy !== "noeviction") {
      throw new Error(
        `The key-value store has maxmemory-policy ${policy}, with which it may throw jobs away; set maxmemory-policy noeviction`,
      );
    }
    if (mode === "single" && info.get("cluster_enabled") === "1")
      throw new Error("The key-value store is a node of a Cluster; use redis+cluster:// in KV_URL");
    if (info.get("aof_enabled") === "0") {
      warnings.add(
        "the key-value store keeps no append-only file: jobs are lost when it restarts; set appendonly yes and appendfsync always",
      );
    }
  }
  return [...warnings];
};

const checkVersion = (version: string): void => {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1]))
    throw new Error(`The key-value store is Redis ${version}; at least ${oldest.join(".")} is needed`);
};

const noSuchDatabase =
  (database: number) =>
  (cause: unknown): never => {
    throw new Error(
      `The key-value store has no database ${database} (${cause instanceof Error ? cause.message : "refused"}); set another one in KV_URL`,
    );
  };

const parse = (info: string): Map<string, string> =>
  new Map(
    info.split(/\r?\n/).flatMap((line) => {
      const colon = line.indexOf(":");
      return colon === -1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const];
    }),
  );
