import { randomUUID } from "node:crypto";
import { failureOf } from "../kv/failure.ts";
import { createScript, type Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { requireId, type Claim, type Index, type IndexEntry, type Kind, type Position } from "./records.ts";

/** A record as it was read. `apart`: the key of its long field; empty: none. */
export type Row<T> = { record: T | null; version: string; apart: string };

export const noRow = { record: null, version: "", apart: "" };

/** Version, text and key of the long field, as they are read. */
type Fields = [version: string | null, text: string | null, apart: string | null];

/** What is stored of a record: its version, its text and the key of its long field. */
type Stored = { version: string; json: string; key: string };

/** A long field has more characters, as JSON. */
const longestInline = 1024;

/** How long a replaced long field stays, s: a reader of the previous record may still ask for it. */
const replacedGrace = 60;

/** A condition on a new record: `[type, last part of the key, argument]`. */
export type Condition = [type: string, index: string, argument: string];

type Write<T> = { id: string; row: Row<T>; next: T | null; conditions?: Condition[] };

/** The stored texts of records, and the writes that change them together with their indexes. */
export const createRedisRows = <T extends object>({ kv, kind, log }: { kv: Kv; kind: Kind<T>; log: Log }) => {
  const { layout, version: versionField = "", oneSlot, apart } = kind.redis;
  const warnings = createWarnOnce();
  const isTable = layout === "table";
  const keyed = oneSlot ? kv.jobKey : kv.key;
  const keyOf = (id: string): string => keyed(...kind.redis.key(id));
  const origin = randomUUID();
  let versions = 0;

  /** Unique also when the store has lost its last writes; a counter in the store would not be. */
  const newVersion = (): string => `${origin}-${(versions += 1)}`;

  const skip = (id: string, why: string): null => {
    warnings.once(id, () => log.warn({ [kind.noun]: id }, `stored ${kind.noun} skipped: ${why}`));
    return null;
  };

  const parse = (id: string, text: string): T | null => {
    const record = kind.parse(text, id);
    if (typeof record === "string") return skip(id, record);
    warnings.clear(id);
    return record;
  };

  const readFields = async (id: string): Promise<Fields> => {
    if (layout === "hash") {
      const names = [versionField, "json", apart?.field ?? ""];
      return (await kv.ask((client) => client.hmget(keyOf(id), ...names))) as Fields;
    }
    const text = await kv.ask((client) => (isTable ? client.hget(keyOf(id), id) : client.get(keyOf(id))));
    return [text, text, null];
  };

  const read = async (id: string): Promise<Row<T>> => {
    if (!kind.isId(id)) return noRow;
    const fields = await readFields(id).catch(nullIfWrongType);
    if (fields === null) return { ...noRow, record: skip(id, "its key holds another type of value") };
    const [version, text, apartKey] = fields;
    if (version === null && text === null) return noRow;
    if (version === null || text === null)
      return { ...noRow, record: skip(id, "it is not whole"), version: version ?? "" };
    const record = parse(id, text);
    if (record === null || !apartKey || apart === undefined) return { record, version, apart: "" };
    const long = await kv.ask((client) => client.get(apartKey));
    const value = long === null ? null : (JSON.parse(long) as unknown);
    return { record: { ...record, [apart.field]: value }, version, apart: apartKey };
  };

  /** Stores the long field, unless it is short or unchanged, and returns the rest. */
  const storeApart = async (id: string, record: T, before: Row<T>, version: string): Promise<Stored> => {
    const value = apart === undefined ? null : record[apart.field];
    const text = typeof value === "string" ? JSON.stringify(value) : "";
    if (apart === undefined || text.length <= longestInline)
      return { version, json: JSON.stringify(record), key: "" };
    const json = JSON.stringify({ ...record, [apart.field]: null });
    if (before.apart !== "" && value === before.record?.[apart.field])
      return { version, json, key: before.apart };
    const key = kv.key(apart.key, id, version);
    await kv.ask((client) => client.set(key, text, "EX", apart.seconds(record)));
    return { version, json, key };
  };

  const entriesOf = (record: T | null, id: string): IndexEntry[] =>
    record === null ? [] : kind.entries(record, id).filter(({ at }) => Number.isFinite(at));

  const factsOf = (record: T | null, id: string): Fact[] => [
    ...entriesOf(record, id).map((entry) => entryFact(id, entry)),
    ...(record === null ? [] : (kind.claims?.(record) ?? []).map((claim) => claimFact(id, claim))),
    ...(record === null || kind.redis.ids !== true
      ? []
      : [{ name: idsIndex, add: ["ZADD", "0", id], drop: ["ZREM", id] }]),
  ];

  /** Keys and arguments of `changeRecord`. */
  const scriptOf = (
    { id, row, next, conditions = [] }: Write<T>,
    stored: Stored,
    commands: IndexCommand[],
  ) => {
    const keys = [keyOf(id)];
    const numberOf = (name: string): number => {
      if (!keys.includes(keyed(name))) keys.push(keyed(name));
      return keys.indexOf(keyed(name)) + 1;
    };
    const args = [
      layout,
      isTable ? id : versionField,
      row.version,
      layout === "hash" ? stored.version : stored.json || stored.version,
      String(next === null ? 0 : (kind.redis.seconds?.(next) ?? 0)),
      JSON.stringify(commands.map(({ name, command: [verb, ...rest] }) => [verb, numberOf(name), ...rest])),
      JSON.stringify(conditions.map(([type, name, ...rest]) => [type, numberOf(name), ...rest])),
      ...(next === null ? [] : writtenOf(id, stored)),
    ];
    return { keys, args };
  };

  const writtenOf = (id: string, { version, json, key }: Stored): string[] => {
    if (layout === "string") return [json];
    if (isTable) return [id, json];
    return [versionField, version, "json", json, ...(apart === undefined ? [] : [apart.field, key])];
  };

  /** Answers as `changeRecord` does. */
  const write = async (request: Write<T>): Promise<string> => {
    const { id, row, next } = request;
    requireId(kind, id);
    const version = newVersion();
    const stored = next === null ? { version, json: "", key: "" } : await storeApart(id, next, row, version);
    const { added, dropped } = difference(factsOf(row.record, id), factsOf(next, id));
    for (const { name, command } of oneSlot ? [] : added) {
      const [verb = "", ...rest] = command;
      await kv.ask((client) => client.call(verb, keyed(name), ...rest));
    }
    const { keys, args } = scriptOf(request, stored, oneSlot ? [...dropped, ...added] : []);
    const answer = String(await kv.ask((client) => changeRecord(client, keys, args)));
    if (answer !== "done") return answer;
    // A long field that cannot be removed now expires by itself.
    if (row.apart !== "" && row.apart !== stored.key)
      kv.ask((client) => client.expire(row.apart, next === null ? 0 : replacedGrace)).catch(() => undefined);
    if (!oneSlot) await dropEntries(id, row.record, next);
    return answer;
  };

  /** The record is written already: readers recognize entries that could not be removed. */
  const dropEntries = async (id: string, before: T | null, after: T | null): Promise<void> => {
    const stays = new Set(entriesOf(after, id).map(({ index }) => index.name));
    const left = entriesOf(before, id).filter(({ index }) => !stays.has(index.name));
    await Promise.allSettled(left.map(({ index, at }) => drop(index, id, at)));
  };

  /** Removes an entry unless it has a later time by now. */
  const drop = async ({ name }: Index, id: string, upTo: number): Promise<void> => {
    await kv.ask((client) => dropUpTo(client, [keyed(name)], [id, String(upTo)]));
  };

  return { keyed, keyOf, parse, read, write, drop };
};

const nullIfWrongType = (error: unknown): null => {
  if (failureOf(error) !== "value") throw error;
  return null;
};

/** An index entry or a claim: the last part of its key, and the commands that add and drop it. */
type Fact = { name: string; add: string[]; drop: string[] };

/** A command on an index: the last part of its key, then the command and its arguments without the key. */
type IndexCommand = { name: string; command: string[] };

/** Member of an index by creation: text that sorts by time, then id. */
export const memberOf = ({ created, id }: Position): string => `${String(created).padStart(13, "0")}_${id}`;

export const positionOf = (member: string): Position => ({
  created: Number.parseInt(member, 10),
  id: member.slice(member.indexOf("_") + 1),
});

const entryFact = (id: string, { index: { name, order }, at, value }: IndexEntry): Fact => {
  if (order === "none") return { name, add: ["HSET", id, JSON.stringify(value)], drop: ["HDEL", id] };
  const [score, member] = order === "time" ? [at, id] : [0, memberOf({ created: at, id })];
  return { name, add: ["ZADD", String(score), member], drop: ["ZREM", member] };
};

const claimFact = (id: string, { name, value, holder }: Claim): Fact =>
  holder
    ? { name: `${name}:${value}`, add: ["SET", id], drop: ["DEL"] }
    : { name, add: ["SADD", value], drop: ["SREM", value] };

/** Last part of the key of the index that sorts by id. */
export const idsIndex = "ids";

/** Commands that turn the facts before into those after. A fact that only changes is added again, not dropped. */
const difference = (before: readonly Fact[], after: readonly Fact[]) => {
  const isSame = (a: Fact, b: Fact): boolean => a.name === b.name && String(a.drop) === String(b.drop);
  const isAdded = (fact: Fact): boolean =>
    before.some((old) => isSame(old, fact) && String(old.add) === String(fact.add));
  return {
    dropped: before
      .filter((fact) => !after.some((other) => isSame(fact, other)))
      .map(({ name, drop }): IndexCommand => ({ name, command: drop })),
    added: after
      .filter((fact) => !isAdded(fact))
      .map(({ name, add }): IndexCommand => ({ name, command: add })),
  };
};

/**
 * Changes a record and the indexes in its slot. Keys: the record, then those that conditions and commands name by number.
 * Arguments: 1 layout, 2 field (of the version, or of the record in a table), 3 the version that the record must have (empty:
 * none), 4 the version it gets, 5 seconds until it expires (0: never), 6 commands `[name, number of the key, argument, …]`,
 * 7 conditions `[type, number of the key, argument]`, from 8 on what is written (nothing: it is deleted): for a string the
 * text, otherwise fields and values. A string and a record in a table are their own version.
 *
 * Answers `done`; `changed`: the record has another version; `full`; `taken:` and the holder. An index key with another type
 * of value is found before anything is written, so that nothing is half done.
 *
 * The client of a Cluster sends a command again when the connection breaks before the reply: the script recognizes its own
 * work by the version that it wrote, and answers `done` again.
 */
const changeRecord = createScript(`
local record, isString = KEYS[1], ARGV[1] == 'string'
local found
if isString then found = redis.call('GET', record) else found = redis.call('HGET', record, ARGV[2]) end
if found == ARGV[4] then return 'done' end
if (found or '') ~= ARGV[3] then return 'changed' end

local commands = cjson.decode(ARGV[6])
local types = { ZADD = 'zset', ZREM = 'zset', HSET = 'hash', HDEL = 'hash', SADD = 'set', SREM = 'set', SET = 'string' }
for _, command in ipairs(commands) do
  local key, right = KEYS[command[2]], types[command[1]]
  local current = redis.call('TYPE', key).ok
  if right and current ~= 'none' and current ~= right then return redis.error_reply('WRONGTYPE of ' .. key) end
end

for _, condition in ipairs(cjson.decode(ARGV[7])) do
  local type, key, argument = condition[1], KEYS[condition[2]], condition[3]
  if type == 'fewer' and redis.call('ZCARD', key) >= tonumber(argument) then return 'full' end
  if type == 'member' and redis.call('SISMEMBER', key, argument) == 1 then return 'taken:' end
  local holder = type == 'holder' and redis.call('GET', key)
  if holder and holder ~= argument then return 'taken:' .. holder end
end

if ARGV[8] then
  if isString then redis.call('SET', record, ARGV[8]) else redis.call('HSET', record, unpack(ARGV, 8)) end
  if ARGV[5] ~= '0' then redis.call('EXPIRE', record, ARGV[5]) else redis.call('PERSIST', record) end
elseif ARGV[1] == 'table' then redis.call('HDEL', record, ARGV[2])
else redis.call('DEL', record) end
for _, command in ipairs(commands) do redis.call(command[1], KEYS[command[2]], unpack(command, 3)) end
return 'done'
`);

/** Key: a sorted set. Arguments: member, the highest score at which it is removed. */
const dropUpTo = createScript(`
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1`);
