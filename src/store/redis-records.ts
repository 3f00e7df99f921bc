import { randomUUID } from "node:crypto";
import { createScript } from "../kv/kv.ts";
import { requireId, type Creation, type Kind, type Records } from "./records.ts";
import {
  createRedisRows,
  noRow,
  placesOf,
  without,
  type Fact,
  type RedisOptions,
  type Row,
} from "./redis-rows.ts";

type Write<T> = {
  id: string;
  row: Row<T>;
  next: T | null;
  limit?: { index: string; max: number } | undefined;
  /** Whose claims do not count. */
  ignored?: string | undefined;
};

/** A long field has more characters, as JSON. */
const longestInline = 1024;

/** How long a replaced long field stays, s: a reader of the previous record may still ask for it. */
const replacedGrace = 60;

/**
 * Records in the key-value store, all with their indexes and claims in one slot: the hash `{prefix:j}:{key}:{id}` with the
 * fields `rev`, `json` and, for a kind with a long field, its key. One script changes a record and its indexes. Nothing is
 * answered from memory.
 */
export const openRedisRecords = <T extends object>(kind: Kind<T>, options: RedisOptions): Records<T> => {
  const { kv } = options;
  const { large } = kind;
  const keyOf = (id: string): string => kv.jobKey(kind.key, id);
  const origin = randomUUID();
  let versions = 0;

  const read = async (id: string) => {
    const names = ["rev", "json", ...(large ? [large.field] : [])];
    const [version, text = null, key] = await kv.ask((client) => client.hmget(keyOf(id), ...names));
    const stored = { version: version ?? "", text, large: key ?? "" };
    if (large === undefined || !key) return stored;
    const long = await kv.ask((client) => client.get(key));
    return {
      ...stored,
      long: { [large.field]: long === null ? null : (JSON.parse(long) as unknown) } as Partial<T>,
    };
  };

  /** The fields of a record. A long field that is new gets a key of its own. */
  const fieldsOf = async (id: string, record: T, before: Row<T>, version: string): Promise<string[]> => {
    const fields = ["rev", version, "json", JSON.stringify(record)];
    if (large === undefined) return fields;
    const value = record[large.field];
    const text = typeof value === "string" ? JSON.stringify(value) : "";
    if (text.length <= longestInline) return [...fields, large.field, ""];
    const isSame = before.large !== "" && value === before.record?.[large.field];
    const key = isSame ? before.large : kv.key(large.key, id, version);
    if (!isSame) await kv.ask((client) => client.set(key, text, "EX", large.seconds(record)));
    return ["rev", version, "json", JSON.stringify({ ...record, [large.field]: null }), large.field, key];
  };

  const factsOf = (id: string, record: T | null): Fact[] => [
    ...placesOf(kind, id, record),
    ...(record === null ? [] : (kind.claims?.(record) ?? [])).map((claim): Fact => [claim]),
  ];

  /** Answers as `changeRecord` does. */
  const write = async ({ id, row, next, limit, ignored = "" }: Write<T>): Promise<string> => {
    // Unique also when the store has lost its last writes; a counter in the store would not be.
    const version = `${origin}-${(versions += 1)}`;
    const fields = next === null ? [] : await fieldsOf(id, next, row, version);
    const [before, after] = [factsOf(id, row.record), factsOf(id, next)];
    const [dropped, added] = [without(before, after), without(after, before)];
    const names = [...dropped, ...added, ...(limit ? [[limit.index]] : [])].map(([name = ""]) => name);
    const numbered = (facts: Fact[]) => facts.map(([name, ...rest]) => [names.indexOf(name) + 2, ...rest]);
    const plan = {
      dropped: numbered(dropped),
      added: numbered(added),
      limit: limit && {
        key: names.indexOf(limit.index) + 2,
        max: Math.min(limit.max, Number.MAX_SAFE_INTEGER),
      },
    };
    const keys = [keyOf(id), ...names.map((name) => kv.jobKey(name))];
    const args = [row.version, version, JSON.stringify(plan), id, ignored, ...fields];
    const answer = String(await kv.ask((client) => changeRecord(client, keys, args)));
    // A long field that cannot be removed now expires by itself.
    if (answer === "done" && row.large !== "" && !fields.includes(row.large))
      kv.ask((client) => client.expire(row.large, next === null ? 0 : replacedGrace)).catch(() => undefined);
    return answer;
  };

  return {
    ...createRedisRows(
      kind,
      options,
      read,
      async (id, row, next) => (await write({ id, row, next })) === "done",
    ),

    create: async (id, record, { limit, ignored } = {}): Promise<Creation> => {
      requireId(kind, id);
      const answer = await write({ id, row: noRow, next: record, limit, ignored });
      if (answer === "done") return "created";
      if (answer === "full") return "full";
      const [, key = "", by = id] = /^taken (\S+) (\S+)$/.exec(answer) ?? [];
      return { taken: key.slice(kv.jobKey("").length), by };
    },

    count: (index) => kv.ask((client) => client.zcard(kv.jobKey(index))),

    increment: async (counter) => {
      await kv.ask((client) => client.hincrby(kv.jobKey("tally"), counter, 1));
    },
    counters: async (names) => {
      const counts = await kv.ask((client) => client.hmget(kv.jobKey("tally"), ...names));
      return counts.map((count) => Number(count ?? 0));
    },

    check: kv.check,
  };
};

/**
 * Changes a record with its indexes and claims. Keys: the record, then those that the plan names by number. Arguments: 1 the
 * version that the record must have (empty: none), 2 the one it gets, 3 the plan `{dropped, added, limit}` with
 * `[number of the key, member]` for a place in an index and `[number of the key]` for a claim, 4 the id, 5 whose claims do not
 * count, from 6 on fields and values (none: the record is deleted).
 *
 * Answers `done`; `changed`: the record has another version; `full`; `taken`, the key of a claim and its holder. A key with
 * another type of value is found before anything is written, so that nothing is half done.
 *
 * The client of a Cluster sends a command again when the connection breaks before the reply: the script recognizes its own
 * work by the version that it wrote, and answers `done` again.
 */
const changeRecord = createScript(`
local record, plan, id = KEYS[1], cjson.decode(ARGV[3]), ARGV[4]
local found = redis.call('HGET', record, 'rev')
if found == ARGV[2] then return 'done' end
if (found or '') ~= ARGV[1] then return 'changed' end
for _, facts in ipairs({ plan.dropped, plan.added }) do
  for _, fact in ipairs(facts) do
    local key = KEYS[fact[1]]
    local type = redis.call('TYPE', key).ok
    if type ~= 'none' and type ~= (fact[2] and 'zset' or 'string') then
      return redis.error_reply('WRONGTYPE of ' .. key)
    end
  end
end
for _, fact in ipairs(plan.added) do
  local holder = not fact[2] and redis.call('GET', KEYS[fact[1]])
  if holder and holder ~= id and holder ~= ARGV[5] then return 'taken ' .. KEYS[fact[1]] .. ' ' .. holder end
end
if plan.limit and redis.call('ZCARD', KEYS[plan.limit.key]) >= plan.limit.max then return 'full' end
if ARGV[6] then redis.call('HSET', record, unpack(ARGV, 6)) else redis.call('DEL', record) end
for _, fact in ipairs(plan.dropped) do
  if fact[2] then redis.call('ZREM', KEYS[fact[1]], fact[2]) else redis.call('DEL', KEYS[fact[1]]) end
end
for _, fact in ipairs(plan.added) do
  if fact[2] then redis.call('ZADD', KEYS[fact[1]], 0, fact[2]) else redis.call('SET', KEYS[fact[1]], id) end
end
return 'done'
`);
