import { randomUUID } from "node:crypto";
import { failureOf } from "../kv/failure.ts";
import { createScript, type Kv } from "../kv/kv.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import {
  entriesOf,
  requireId,
  type CreateOptions,
  type Creation,
  type Kind,
  type Position,
  type Query,
  type Records,
} from "./records.ts";

type Options = { kv: Kv; now: () => Date; log: Log };

/** What is stored of a record; its version is empty when there is none. `longKey`: the key of its long field. */
type Stored<T> = { version: string; text: string | null; longKey: string; long?: Partial<T> };

/** A record as it was read; null: there is none, or it cannot be read. */
type Row<T> = Pick<Stored<T>, "version" | "longKey"> & { record: T | null };

const noRow = { version: "", longKey: "", record: null };

type Write<T> = CreateOptions & { id: string; row: Row<T>; next: T | null };

/** How records are stored. `write` answers `done`, or why the record was not written: see `changeRecord`. */
type Layout<T> = {
  read: (id: string) => Promise<Stored<T>>;
  write: (write: Write<T>) => Promise<string>;
};

/** Records in the key-value store. Nothing is answered from memory. */
export const openRedisRecords = <T extends object>(kind: Kind<T>, { kv, now, log }: Options): Records<T> => {
  const { read, write } = kind.literal === undefined ? inOneSlot(kind, kv) : inOwnSlots(kind, kv);
  const { runExclusive, idle } = createKeyedMutex();
  const warnings = createWarnOnce();

  const skip = (id: string, why: string): null => {
    warnings.once(id, () => log.warn({ [kind.noun]: id }, `stored ${kind.noun} skipped: ${why}`));
    return null;
  };

  const readRow = async (id: string): Promise<Row<T>> => {
    if (!kind.isId(id)) return noRow;
    const stored = await read(id).catch(nullIfWrongType);
    if (stored === null) return { ...noRow, record: skip(id, "its key holds another type of value") };
    const { version, text, longKey, long } = stored;
    if (version === "" && text === null) return noRow;
    const record = version === "" || text === null ? "it is not whole" : kind.parse(text, id);
    if (typeof record === "string") return { version, longKey, record: skip(id, record) };
    warnings.clear(id);
    return { version, longKey, record: { ...record, ...long } };
  };

  const list = (index: string, query: Query = {}) => listMembers(kv, kv.jobKey(index), query);

  return {
    get: async (id) => {
      const { record } = await readRow(id);
      return record !== null && (kind.expires?.(record) ?? Infinity) <= now().getTime() ? null : record;
    },

    create: async (id, record, options): Promise<Creation> => {
      requireId(kind, id);
      const answer = await write({ id, row: noRow, next: record, ...options });
      if (answer === "done") return "created";
      if (answer === "full") return "full";
      const [, key = "", by = id] = /^taken (\S+) (\S+)$/.exec(answer) ?? [];
      return { taken: key.slice(kv.jobKey("").length), by };
    },

    change: (id, next) =>
      runExclusive(id, async () => {
        for (;;) {
          const row = await readRow(id);
          const after = next(row.record);
          if (after === undefined || (after === null && row.record === null))
            return { after: row.record, changed: false };
          requireId(kind, id);
          if ((await write({ id, row, next: after })) === "done") return { after, changed: true };
        }
      }),

    list,
    count: (index) => kv.ask((client) => client.zcard(kv.jobKey(index))),

    expire: async (at) => {
      const { indexes = [], longest = 0 } = kind.literal ?? {};
      const end = `(${timeOf(at.getTime() - longest * 1000)}`;
      for (const index of indexes)
        await kv.ask((client) => client.zremrangebylex(kv.jobKey(index), "-", end));
    },

    increment: async (counter) => {
      await kv.ask((client) => client.hincrby(kv.jobKey("tally"), counter, 1));
    },
    counters: async (names) => {
      const counts = await kv.ask((client) => client.hmget(kv.jobKey("tally"), ...names));
      return counts.map((count) => Number(count ?? 0));
    },
    check: kv.check,
    close: idle,
  };
};

const nullIfWrongType = (error: unknown): null => {
  if (failureOf(error) !== "value") throw error;
  return null;
};

/** A long field has more characters, as JSON. */
const longestInline = 1024;

/** How long a replaced long field stays, s: a reader of the previous record may still ask for it. */
const replacedGrace = 60;

/**
 * All records of a kind with their indexes and claims in one slot: the hash `{prefix:j}:{key}:{id}` with the fields `rev`,
 * `json` and, for a kind with a long field, its key. One script changes a record and its indexes.
 */
const inOneSlot = <T extends object>(kind: Kind<T>, kv: Kv): Layout<T> => {
  const { long } = kind;
  const keyOf = (id: string): string => kv.jobKey(kind.key, id);
  const origin = randomUUID();
  let versions = 0;

  const factsOf = (id: string, record: T | null): Fact[] => [
    ...membersOf(kind, kv, id, record),
    ...(record === null ? [] : (kind.claims?.(record) ?? [])).map((claim): Fact => [kv.jobKey(claim)]),
  ];

  /** Writes a long field that is new. Resolves to its key; empty: it is short. */
  const writeLong = async (id: string, record: T, before: Row<T>, version: string): Promise<string> => {
    const value = long && record[long.field];
    const text = typeof value === "string" ? JSON.stringify(value) : "";
    if (long === undefined || text.length <= longestInline) return "";
    if (before.longKey !== "" && value === before.record?.[long.field]) return before.longKey;
    const key = kv.key(long.key, id, version);
    await kv.ask((client) => client.set(key, text, "EX", long.seconds(record)));
    return key;
  };

  return {
    read: async (id) => {
      const names = ["rev", "json", ...(long ? [long.field] : [])];
      const [version, text = null, longKey] = await kv.ask((client) => client.hmget(keyOf(id), ...names));
      const stored = { version: version ?? "", text, longKey: longKey ?? "" };
      if (long === undefined || !longKey) return stored;
      const value = await kv.ask((client) => client.get(longKey));
      const field = value === null ? null : (JSON.parse(value) as unknown);
      return { ...stored, long: { [long.field]: field } as Partial<T> };
    },

    write: async ({ id, row, next, limit, ignored = "" }) => {
      // Unique also when the store has lost its last writes; a counter in the store would not be.
      const version = `${origin}-${(versions += 1)}`;
      const longKey = next === null ? "" : await writeLong(id, next, row, version);
      const json = JSON.stringify(longKey !== "" && long ? { ...next, [long.field]: null } : next);
      const fields =
        next === null ? [] : ["rev", version, "json", json, ...(long ? [long.field, longKey] : [])];
      const [before, after] = [factsOf(id, row.record), factsOf(id, next)];
      const plan = {
        dropped: without(before, after),
        added: without(after, before),
        limit: limit && [kv.jobKey(limit.index), Math.min(limit.max, Number.MAX_SAFE_INTEGER)],
      };
      const args = [row.version, version, JSON.stringify(plan), id, ignored, ...fields];
      const answer = String(await kv.ask((client) => changeRecord(client, [keyOf(id)], args)));
      // A long field that cannot be removed now expires by itself.
      if (answer === "done" && row.longKey !== "" && row.longKey !== longKey)
        kv.ask((client) => client.expire(row.longKey, next === null ? 0 : replacedGrace)).catch(
          () => undefined,
        );
      return answer;
    },
  };
};

/**
 * Changes a record with its indexes and claims. Key: the record, in whose slot all others are. Arguments: 1 the version that
 * the record must have (empty: none), 2 the one it gets, 3 the plan `{dropped, added, limit}` with `[key, member]` for a place
 * in an index, `[key]` for a claim and `[key, max]` for the limit, 4 the id, 5 whose claims do not count, from 6 on fields and
 * values (none: the record is deleted).
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
    local type = redis.call('TYPE', fact[1]).ok
    if type ~= 'none' and type ~= (fact[2] and 'zset' or 'string') then
      return redis.error_reply('WRONGTYPE of ' .. fact[1])
    end
  end
end
for _, fact in ipairs(plan.added) do
  local holder = not fact[2] and redis.call('GET', fact[1])
  if holder and holder ~= id and holder ~= ARGV[5] then return 'taken ' .. fact[1] .. ' ' .. holder end
end
if plan.limit and redis.call('ZCARD', plan.limit[1]) >= plan.limit[2] then return 'full' end
if ARGV[6] then redis.call('HSET', record, unpack(ARGV, 6)) else redis.call('DEL', record) end
for _, fact in ipairs(plan.dropped) do
  if fact[2] then redis.call('ZREM', fact[1], fact[2]) else redis.call('DEL', fact[1]) end
end
for _, fact in ipairs(plan.added) do
  if fact[2] then redis.call('ZADD', fact[1], 0, fact[2]) else redis.call('SET', fact[1], id) end
end
return 'done'
`);

/**
 * Records with documented keys: the string `{prefix}:{key}:{id}`, and indexes elsewhere. An entry is added before the record
 * is written and removed after it: a crash in between leaves an entry too many, never one too few, and the record decides
 * what an entry is worth.
 */
const inOwnSlots = <T extends object>(kind: Kind<T>, kv: Kv): Layout<T> => {
  const keyOf = (id: string): string => kv.key(kind.key, id);
  return {
    read: async (id) => {
      const text = await kv.ask((client) => client.get(keyOf(id)));
      return { version: text ?? "", text, longKey: "" };
    },
    write: async ({ id, row, next }) => {
      const added = membersOf(kind, kv, id, next);
      for (const [index, member] of added) await kv.ask((client) => client.zadd(index, 0, member));
      const [text, seconds] = next === null ? ["", 0] : [JSON.stringify(next), kind.literal?.seconds(next)];
      const args = [row.version, text, String(seconds)];
      if ((await kv.ask((client) => swap(client, [keyOf(id)], args))) !== 1) return "changed";
      const dropped = without(membersOf(kind, kv, id, row.record), added);
      // Readers recognize entries that could not be removed.
      await Promise.allSettled(
        dropped.map(([index, member]) => kv.ask((client) => client.zrem(index, member))),
      );
      return "done";
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

/** The key of an index and a member, or the key of a claim. */
type Fact = [key: string, member?: string];

const membersOf = <T extends object>(kind: Kind<T>, kv: Kv, id: string, record: T | null) =>
  entriesOf(kind, record).map(({ index, ...entry }): [string, string] => [
    kv.jobKey(index),
    memberOf({ id, ...entry }),
  ]);

/** The facts that are not among the others. */
const without = <One extends Fact>(facts: One[], others: Fact[]): One[] => {
  const left = new Set(others.map((other) => other.join("\n")));
  return facts.filter((fact) => !left.has(fact.join("\n")));
};

type Entry = Position & { value?: string };

/** The latest time that keeps members sortable, ms since the epoch. */
const latest = 9_999_999_999_999;

const timeOf = (at: number): string => String(Math.min(at, latest)).padStart(13, "0");

/** The member of an index, a sorted set whose scores are all 0: text that sorts by time, then id. */
const memberOf = ({ at, id, value }: Entry): string =>
  `${timeOf(at)}_${id}${value === undefined ? "" : ` ${value}`}`;

const entryOf = (member: string): Entry => {
  const end = member.indexOf(" ");
  const id = member.slice(member.indexOf("_") + 1, end === -1 ? undefined : end);
  return { at: Number.parseInt(member, 10), id, ...(end !== -1 && { value: member.slice(end + 1) }) };
};

const listMembers = async (
  kv: Kv,
  key: string,
  { newest = false, before, until, beginning, skip = 0, limit = Infinity }: Query,
): Promise<Entry[]> => {
  const begin = beginning === undefined ? null : memberOf({ at: 0, id: beginning });
  const last = until === undefined ? begin && `${begin}~` : `${timeOf(until)}_~`;
  const end = before ? memberOf(before) : last;
  const [low, high] = [begin === null ? "-" : `[${begin}`, end === null ? "+" : `(${end}`];
  const count = Number.isFinite(limit) ? limit : -1;
  const members = await kv.ask((client) =>
    newest
      ? client.zrevrangebylex(key, high, low, "LIMIT", skip, count)
      : client.zrangebylex(key, low, high, "LIMIT", skip, count),
  );
  return members.map(entryOf);
};
