import { failureOf } from "../kv/failure.ts";
import type { Kv, KvClient } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { entriesOf, requireId, type Kind, type Position, type Query, type Values } from "./records.ts";

export type RedisOptions = { kv: Kv; now: () => Date; log: Log };

/** What is stored of a record; its version is empty when there is none. `large`: the key of its long field. */
export type Stored = { version: string; text: string | null; large: string };

/** A record as it was read; null: there is none, or it cannot be read. */
export type Row<T> = Stored & { record: T | null };

export const noRow = { version: "", text: null, large: "", record: null };

/**
 * What all kinds of records in the key-value store do, given how one is read (`large`: its long field) and how it is
 * written while its version is still that of the row (false: it is not).
 */
export const createRedisRows = <T extends object>(
  kind: Kind<T>,
  { kv, now, log }: RedisOptions,
  read: (id: string) => Promise<Stored & { long?: Partial<T> }>,
  write: (id: string, row: Row<T>, next: T | null) => Promise<boolean>,
): Omit<Values<T>, "expire"> & { close: () => Promise<void> } => {
  const { runExclusive, idle } = createKeyedMutex();
  const warnings = createWarnOnce();

  const skip = (id: string, why: string): null => {
    warnings.once(id, () => log.warn({ [kind.noun]: id }, `stored ${kind.noun} skipped: ${why}`));
    return null;
  };

  const readRow = async (id: string): Promise<Row<T>> => {
    if (!kind.isId(id)) return noRow;
    const found = await read(id).catch(nullIfWrongType);
    if (found === null) return { ...noRow, record: skip(id, "its key holds another type of value") };
    const { long, ...stored } = found;
    const { version, text } = stored;
    if (version === "" && text === null) return noRow;
    const record = version === "" || text === null ? "it is not whole" : kind.parse(text, id);
    if (typeof record === "string") return { ...stored, record: skip(id, record) };
    warnings.clear(id);
    return { ...stored, record: { ...record, ...long } };
  };

  return {
    get: async (id) => {
      const { record } = await readRow(id);
      return record !== null && (kind.expires?.(record) ?? Infinity) <= now().getTime() ? null : record;
    },

    change: (id, next) =>
      runExclusive(id, async () => {
        for (;;) {
          const row = await readRow(id);
          const after = next(row.record);
          if (after === undefined || (after === null && row.record === null))
            return { after: row.record, changed: false };
          requireId(kind, id);
          if (await write(id, row, after)) return { after, changed: true };
        }
      }),

    list: async (index, query = {}) => {
      const andKey = query.and === undefined ? null : kv.jobKey(query.and);
      return (await kv.ask((client) => listMembers(client, kv.jobKey(index), query, andKey))).map(entryOf);
    },

    close: idle,
  };
};

const nullIfWrongType = (error: unknown): null => {
  if (failureOf(error) !== "value") throw error;
  return null;
};

/** A place in an index (the last part of its key, and the member), or a claim, which has no member. */
export type Fact = [name: string, member?: string];

/** The places of a record in indexes. */
export const placesOf = <T extends object>(kind: Kind<T>, id: string, record: T | null): [string, string][] =>
  entriesOf(kind, record).map(({ index, ...entry }) => [index, memberOf({ id, ...entry })]);

/** The facts that are not among the others. */
export const without = <One extends Fact>(facts: One[], others: Fact[]): One[] => {
  const left = new Set(others.map((other) => other.join("\n")));
  return facts.filter((fact) => !left.has(fact.join("\n")));
};

type Entry = Position & { value?: string };

/** The latest time that keeps members sortable, ms since the epoch. */
const latest = 9_999_999_999_999;

const timeOf = (at: number): string => String(Math.min(at, latest)).padStart(13, "0");

/** The member of an index, a sorted set whose scores are all 0: text that sorts by time, then id. */
export const memberOf = ({ at, id, value }: Entry): string =>
  `${timeOf(at)}_${id}${value === undefined ? "" : ` ${value}`}`;

const entryOf = (member: string): Entry => {
  const end = member.indexOf(" ");
  const id = member.slice(member.indexOf("_") + 1, end === -1 ? undefined : end);
  return { at: Number.parseInt(member, 10), id, ...(end !== -1 && { value: member.slice(end + 1) }) };
};

/** Members of an index. `andKey`: that of the index `query.and`, in the same slot. */
const listMembers = async (
  client: KvClient,
  key: string,
  { newest = false, before, until, beginning, skip = 0, limit = Infinity }: Query,
  andKey: string | null,
): Promise<string[]> => {
  const begin = beginning === undefined ? null : memberOf({ at: 0, id: beginning });
  const last = until === undefined ? begin && `${begin}~` : `${timeOf(until)}_~`;
  const end = before ? memberOf(before) : last;
  if (andKey !== null) {
    const both = (await client.zinter(2, [key, andKey])).filter((member) => end === null || member < end);
    return (newest ? both.toReversed() : both).slice(skip, skip + limit);
  }
  const [low, high] = [begin === null ? "-" : `[${begin}`, end === null ? "+" : `(${end}`];
  const count = Number.isFinite(limit) ? limit : -1;
  return newest
    ? await client.zrevrangebylex(key, high, low, "LIMIT", skip, count)
    : await client.zrangebylex(key, low, high, "LIMIT", skip, count);
};
