import { createHash } from "node:crypto";
import type { KvClient } from "./kv.ts";

export type Script = (client: KvClient, keys: readonly string[], args: readonly string[]) => Promise<unknown>;

/**
 * A Lua script that is sent by its digest, and whole only to a server that has not seen it yet. All keys that it touches
 * must be among `keys`, and lie in one slot. Not ioredis's own commands: with a varying number of keys those are routed
 * by that number when the client groups what it sends to a Cluster.
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
