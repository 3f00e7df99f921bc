import type { Redis } from "ioredis";
import { sampleRecord } from "../test/ports/job-record-sample.ts";

const move = `
if (redis.call('HGET', KEYS[1], 'status') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[2], 'json', ARGV[3])
redis.call('ZREM', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[5], ARGV[4])
return 1`;

/** Writes a job's record as one would by hand beside BullMQ: in one step from the status that it must have, with an index of each. */
export const handWriter = (connection: Redis) => {
  connection.defineCommand("moveRecord", { numberOfKeys: 3, lua: move });
  const client = connection as Redis & { moveRecord: (...args: string[]) => Promise<number> };
  return async (id: string, from: "" | "queued" | "running", to: "queued" | "running" | "succeeded") => {
    const keys = [id, `index:${from}`, `index:${to}`].map((key) => `{bare}:records:${key}`);
    const json = JSON.stringify(sampleRecord({ id, status: to }));
    const moved = await client.moveRecord(...keys, from, to, json, id, String(Date.now()));
    if (moved !== 1) throw new Error(`job ${id} is not ${from}`);
  };
};
