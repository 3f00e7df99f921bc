import { randomUUID } from "node:crypto";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import {
  isConversationKey,
  lapseOf,
  parseConversation,
  type ConversationRecord,
  type ConversationStore,
} from "../conversation-store.ts";
import { dropEntry } from "./dated-index.ts";
import { readText } from "./read-text.ts";
import { createScript } from "./script.ts";

type Options = { kv: Kv; ttlSeconds: number; now: () => Date; log: Log };

/** How many lapsed conversations are told at once. */
const mostLapsed = 500;

/** What nobody collects, since agent mode is off or the service is gone, goes by itself this much later, s. */
const uncollected = 30 * 86_400;

/** How long a collected record remembers who has collected it, s. */
const collected = 60;

/**
 * Key: the record. Arguments: the text seen, what it becomes, for how long. Answers 1; 0: it is another one by now. Not
 * deleted at once: the client may send this a second time by itself, and must get the same answer.
 */
const collect = createScript(`
local text = redis.call('GET', KEYS[1])
if text == ARGV[2] then return 1 end
if text ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1`);

const collectedBy = "collected:";

/**
 * `{prefix}:conv:{key}` each, and `{prefix}:conversations`, which tells when each lapses. Those are keys in slots of their
 * own, so a crash may come in between: the index is written first, and an entry without a record means nothing.
 */
export const createRedisConversationStore = ({ kv, ttlSeconds, now, log }: Options): ConversationStore => {
  const keyOf = (key: string): string => kv.key("conv", key);
  const index = kv.key("conversations");
  const warned = new Set<string>();

  const parse = (key: string, text: string | null): ConversationRecord | null => {
    if (text === null || text.startsWith(collectedBy)) return null;
    const record = parseConversation(text);
    if (record === null && !warned.has(key)) {
      warned.add(key);
      log.warn({ conversation: key }, "stored conversation skipped: it is no record of this version");
    }
    return record;
  };

  /** Null: somebody else has got it, it goes on, or is gone. */
  const take = async (key: string, at: number): Promise<ConversationRecord | null> => {
    const text = await readText(kv, (client) => client.get(keyOf(key)));
    const record = parse(key, text);
    if (text === null || record === null || lapseOf(record, ttlSeconds) > at) return null;
    const mark = `${collectedBy}${randomUUID()}`;
    const got = await kv.ask((client) => collect(client, [keyOf(key)], [text, mark, String(collected)]));
    return got === 1 ? record : null;
  };

  return {
    get: async (key) => {
      if (!isConversationKey(key)) return null;
      const record = parse(key, await readText(kv, (client) => client.get(keyOf(key))));
      return record === null || lapseOf(record, ttlSeconds) <= now().getTime() ? null : record;
    },

    put: async (key, record) => {
      if (!isConversationKey(key)) throw new Error("the key of a conversation is 64 hex digits");
      const life = ttlSeconds + uncollected;
      await kv.ask((client) => client.zadd(index, lapseOf(record, ttlSeconds), key));
      await kv.ask((client) =>
        Promise.all([client.set(keyOf(key), JSON.stringify(record), "EX", life), client.expire(index, life)]),
      );
    },

    remove: async (key) => {
      if (!isConversationKey(key)) return;
      await kv.ask((client) => client.del(keyOf(key)));
      await kv.ask((client) => client.zrem(index, key));
    },

    lapsed: async (at) => {
      const time = at.getTime();
      const due = await kv.ask((client) => client.zrangebyscore(index, "-inf", time, "LIMIT", 0, mostLapsed));
      const records: ConversationRecord[] = [];
      for (const key of due) {
        const record = await take(key, time);
        // Not if it has been written again meanwhile: then its entry says another time.
        await dropEntry(kv, index, key, { upTo: time });
        if (record !== null) records.push(record);
      }
      return records;
    },
  };
};
