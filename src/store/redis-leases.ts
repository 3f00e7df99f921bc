import type { Kv } from "../kv/kv.ts";
import type { Renewal } from "./instances.ts";
import { createScript } from "../kv/script.ts";

/** Arguments: the text seen (empty: none), the text it becomes, ms. Answers 1; 0: the key holds something else. */
const take = createScript(`
local found = redis.call('GET', KEYS[1])
if found ~= ARGV[2] and (found or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`);

/** Arguments: the holder's mark, the text, ms, whether one that has lapsed is taken anew. */
const renew = createScript(`
local found = redis.call('GET', KEYS[1])
if found and not string.find(found, ARGV[1], 1, true) then return 'taken' end
if found or ARGV[4] == '1' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return found and 'renewed' or 'lapsed'`);

/** Argument: the holder's mark. */
const release = createScript(`
local found = redis.call('GET', KEYS[1])
if found and string.find(found, ARGV[1], 1, true) then redis.call('DEL', KEYS[1]) end
return 1`);

/**
 * Names that one holder has at a time: a key each, which lapses unless it is renewed. Its text says who holds it; a holder knows
 * its own by a mark in it. Every function rejects with `ServiceError("store_unavailable")`.
 */
export const createRedisLeases = (kv: Kv, keyOf: (name: string) => string) => ({
  get: (name: string): Promise<string | null> => kv.ask((client) => client.get(keyOf(name))),
  /** How long it is still held, ms. */
  left: (name: string): Promise<number> => kv.ask((client) => client.pttl(keyOf(name))),
  /** Takes the name from whoever was seen to hold it (null: nobody). False: somebody else has it by now. */
  take: async (name: string, { seen, text, ms }: { seen: string | null; text: string; ms: number }) =>
    (await kv.ask((client) => take(client, [keyOf(name)], [seen ?? "", text, String(ms)]))) === 1,
  /** `anew`: one that has lapsed is taken in the same step. */
  renew: async (
    name: string,
    { mark, text, ms, anew }: { mark: string; text: string; ms: number; anew: boolean },
  ): Promise<Renewal> => {
    const args = [mark, text, String(ms), anew ? "1" : "0"];
    return (await kv.ask((client) => renew(client, [keyOf(name)], args))) as Renewal;
  },
  /** Unless somebody else has it. */
  release: async (name: string, mark: string): Promise<void> => {
    await kv.ask((client) => release(client, [keyOf(name)], [mark]));
  },
});
