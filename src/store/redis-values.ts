import { createScript } from "../kv/kv.ts";
import { maxBatch, type Kind, type Position, type Values } from "./records.ts";
import { createRedisRows, memberOf, placesOf, without, type RedisOptions, type Row } from "./redis-rows.ts";

/** A writer adds the index entry before the record; within this time, ms, an entry without a record may be one of those. */
const writersGrace = 600_000;

/**
 * Records with documented keys, which are in slots of their own: the string `{prefix}:{key}:{id}`, and indexes elsewhere. An
 * entry is added before the record is written and removed after it: a crash in between leaves an entry too many, never one
 * too few, and the record decides what an entry is worth.
 */
export const openRedisValues = <T extends object>(kind: Kind<T>, options: RedisOptions): Values<T> => {
  const { kv } = options;
  const keyOf = (id: string): string => kv.key(kind.key, id);

  const read = async (id: string) => {
    const text = await kv.ask((client) => client.get(keyOf(id)));
    return { version: text ?? "", text, large: "" };
  };

  const drop = ([index, member]: [string, string]): Promise<unknown> =>
    kv.ask((client) => client.zrem(kv.jobKey(index), member));

  const write = async (id: string, row: Row<T>, next: T | null): Promise<boolean> => {
    const added = placesOf(kind, id, next);
    for (const [index, member] of added) await kv.ask((client) => client.zadd(kv.jobKey(index), 0, member));
    const [text, seconds] = next === null ? ["", 0] : [JSON.stringify(next), kind.seconds?.(next) ?? 0];
    const args = [row.version, text, String(seconds)];
    if ((await kv.ask((client) => swap(client, [keyOf(id)], args))) !== 1) return false;
    // Readers recognize entries that could not be removed.
    await Promise.allSettled(without(placesOf(kind, id, row.record), added).map(drop));
    return true;
  };

  const rows = createRedisRows(kind, options, read, write);
  return {
    ...rows,

    /** Removes entries of records that have expired, but none that a writer may be about to write. */
    expire: async (at) => {
      const { indexes = [], seconds = 0 } = kind.swept ?? {};
      const until = at.getTime() - Math.max(seconds * 1000, writersGrace);
      for (const index of indexes) {
        for (let skip = 0, page: Position[]; ;) {
          page = await rows.list(index, { until, skip, limit: maxBatch });
          for (const { id, at: time } of page) {
            const exists = await kv.ask((client) => client.exists(keyOf(id)));
            if (exists === 1) skip += 1;
            else await drop([index, memberOf({ id, at: time })]);
          }
          if (page.length < maxBatch) break;
        }
      }
    },
  };
};

/**
 * Key: the record. Arguments: its text (empty: none), the new one (empty: it is deleted), seconds until it expires (0:
 * never). Answers 1, or 0 when the record has another text. A script that is sent twice finds its own work.
 */
const swap = createScript(`
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[2] and found ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1])
elseif ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) end
return 1`);
