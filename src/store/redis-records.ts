import type { Kv, KvClient } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { idIn, memberOf, positionOf } from "./index-commands.ts";
import { atOnce, type Change, type Creation, type Index, type Kind, type Records } from "./records.ts";
import { createRedisRows, noRow, type Condition } from "./redis-rows.ts";

type Options = { kv: Kv; now: () => Date; log: Log };

/** A writer that has told the index and not yet written the record gets this long, ms. */
const writersGrace = 600_000;

/**
 * Records in the key-value store. Those in one slot with their indexes are changed by one script; of the others an index is
 * told before the record is written and after it has left, so that a crash in between leaves an entry too many and never one
 * too few: the record decides what an entry is worth. Nothing is answered from memory.
 */
export const openRedisRecords = <T extends object>(kind: Kind<T>, { kv, now, log }: Options): Records<T> => {
  const { runExclusive: inTurn, idle: settled } = createKeyedMutex();
  const rows = createRedisRows({ kv, kind, log });
  const { keyed, keyOf, read, entriesOf, write, drop } = rows;

  const change = async (
    id: string,
    next: (current: T | null) => T | null | undefined,
  ): Promise<Change<T>> => {
    for (;;) {
      const row = await read(id);
      const after = next(row.record);
      if (after === undefined || (after === null && row.record === null))
        return { after: row.record, changed: false };
      if ((await write({ id, row, next: after })) === "done") return { after, changed: true };
    }
  };

  const ask = <Value>(
    { name }: Index,
    work: (client: KvClient, key: string) => Promise<Value>,
  ): Promise<Value> => kv.ask((client) => work(client, keyed(name)));

  /** Entries whose record is gone, or has left the index for good. */
  const sweep = async (index: Index, time: number): Promise<void> => {
    const last = String(atOnce - 1);
    const flat = await ask(index, (client, key) => client.zrange(key, "0", last, "WITHSCORES"));
    for (let place = 0; place < flat.length; place += 2) {
      const [id = "", score = "0"] = flat.slice(place, place + 2);
      const { record } = await read(id);
      const entries = entriesOf(record, id);
      if (entries.some((entry) => entry.index.name === index.name)) continue;
      // An entry newer than its record may be that of a record that is being written.
      const isOlder = entries.some(({ at }) => at >= Number(score));
      if (isOlder || time - Number(score) > writersGrace) await drop(index, id, Number(score));
    }
  };

  return {
    get: async (id) => {
      const { record } = await read(id);
      if (record === null) return null;
      return (kind.expires?.(record) ?? Infinity) <= now().getTime() ? null : record;
    },

    create: async (id, record, { limit, ignored = "" } = {}): Promise<Creation> => {
      const claims = kind.claims?.(record) ?? [];
      const conditions: Condition[] = [];
      for (const { name, value, holder } of claims)
        if (holder) conditions.push(["holder", `${name}:${value}`, ignored]);
      if (limit !== undefined)
        conditions.push(["fewer", limit.index.name, String(Math.min(limit.most, Number.MAX_SAFE_INTEGER))]);
      for (const { name, value, holder } of claims) if (!holder) conditions.push(["member", name, value]);
      const answer = await write({ id, row: noRow, next: record, conditions });
      if (answer === "done") return "created";
      if (answer === "full") return "full";
      const [, holder = ""] = answer.split(":");
      return { takenBy: holder === "" ? null : holder };
    },

    change: (id, next) => inTurn(id, () => change(id, next)),

    all: async () => {
      const texts = await kv.ask((client) => client.hgetall(keyOf("")));
      return Object.entries(texts).flatMap(([id, text]) => rows.parse(id, text) ?? []);
    },

    newest: async (index, { limit, before = null, skip: left = 0 }) => {
      if (index.order === "time") {
        const ids = await ask(index, (client, key) => client.zrevrange(key, left, left + limit - 1));
        return ids.map((id) => ({ created: 0, id }));
      }
      const from = before === null ? "+" : `(${memberOf(before)}`;
      const members = await ask(index, (client, key) =>
        client.zrevrangebylex(key, from, "-", "LIMIT", left, limit),
      );
      return members.map(positionOf);
    },
    oldest: async (index, { limit = Infinity, skip: left = 0, and } = {}) => {
      const last = Number.isFinite(limit) ? left + limit - 1 : -1;
      const members = await ask(index, (client, key) =>
        and === undefined
          ? client.zrange(key, String(left), String(last))
          : client.zinter(2, [keyed(and.name), key]),
      );
      return members.map((member) => idIn(index, member));
    },
    due: (index, until) =>
      ask(index, (client, key) => client.zrangebyscore(key, "-inf", until, "LIMIT", 0, atOnce)),
    values: async (index) => {
      const all = await ask(index, (client, key) => client.hgetall(key));
      return Object.entries(all).flatMap(([id, text]) => valueOf(id, text));
    },
    count: (index) => ask(index, (client, key) => client.zcard(key)),

    expire: async (at) => {
      for (const index of kind.redis.swept ?? []) await sweep(index, at.getTime());
    },

    increment: async (counter) => {
      await ask(tally, (client, key) => client.hincrby(key, counter, 1));
    },
    counters: async (names) => {
      const counts = await ask(tally, (client, key) => client.hmget(key, ...names));
      return counts.map((count) => Number(count ?? 0));
    },

    check: kv.check,
    // The connection belongs to whoever opened it.
    close: settled,
  };
};

const tally: Index = { name: "tally", order: "none" };

/** Nothing, when nobody of us has written that: our values are lists. */
const valueOf = (id: string, text: string): [id: string, value: unknown][] => {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? [[id, value]] : [];
  } catch {
    return [];
  }
};
