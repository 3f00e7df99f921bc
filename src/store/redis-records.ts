import type { Kv, KvClient } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { maxBatch, type Creation, type Index, type Kind, type Records, type Swept } from "./records.ts";
import { createRedisRows, idsIndex, memberOf, noRow, positionOf, type Condition } from "./redis-rows.ts";

type Options = { kv: Kv; now: () => Date; log: Log };

/** A writer adds the index entry before the record; within this time, ms, an entry without a record may be one of those. */
const writersGrace = 600_000;

/**
 * Records in the key-value store. One script changes a record together with the indexes in its slot. For records in slots of
 * their own, an entry is added before the record is written and removed after it: a crash in between leaves an entry too
 * many, never one too few, and the record decides what an entry is worth. Nothing is answered from memory.
 */
export const openRedisRecords = <T extends object>(kind: Kind<T>, { kv, now, log }: Options): Records<T> => {
  const { runExclusive, idle } = createKeyedMutex();
  const { keyed, keyOf, parse, read, write, drop } = createRedisRows({ kv, kind, log });

  const ask = <Value>(
    { name }: Index,
    work: (client: KvClient, key: string) => Promise<Value>,
  ): Promise<Value> => kv.ask((client) => work(client, keyed(name)));

  /**
   * Removes entries of keys that have expired, or were never written; of no others: another version may read what this one
   * cannot. Only what is old enough is looked at. The first index has an entry of each record, and loses it last.
   */
  const sweep = async ({ indexes: [first, ...others], seconds }: Swept, time: number): Promise<void> => {
    const until = time - Math.max(seconds * 1000, writersGrace);
    for (let skip = 0, found = maxBatch; found === maxBatch;) {
      const due = await ask(first, (client, key) =>
        client.zrangebyscore(key, "-inf", until, "WITHSCORES", "LIMIT", skip, maxBatch),
      );
      found = due.length / 2;
      for (let at = 0; at < due.length; at += 2) {
        const [id = "", score = "0"] = due.slice(at, at + 2);
        if ((await kv.ask((client) => client.exists(keyOf(id)))) === 1) skip += 1;
        else for (const index of [...others, first]) await drop(index, id, Number(score));
      }
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
        conditions.push(["fewer", limit.index.name, String(Math.min(limit.max, Number.MAX_SAFE_INTEGER))]);
      for (const { name, value, holder } of claims) if (!holder) conditions.push(["member", name, value]);
      const answer = await write({ id, row: noRow, next: record, conditions });
      if (answer === "done") return "created";
      if (answer === "full") return "full";
      const [, holder = ""] = answer.split(":");
      return { takenBy: holder === "" ? null : holder };
    },

    change: (id, next) =>
      runExclusive(id, async () => {
        for (;;) {
          const row = await read(id);
          const after = next(row.record);
          if (after === undefined || (after === null && row.record === null))
            return { after: row.record, changed: false };
          if ((await write({ id, row, next: after })) === "done") return { after, changed: true };
        }
      }),

    all: async () => {
      const texts = await kv.ask((client) => client.hgetall(keyOf("")));
      return Object.entries(texts).flatMap(([id, text]) => parse(id, text) ?? []);
    },

    newest: async (index, { limit, before = null, skip = 0, and }) => {
      if (index.order === "time") {
        const ids = await ask(index, (client, key) => client.zrevrange(key, skip, skip + limit - 1));
        return ids.map((id) => ({ created: 0, id }));
      }
      if (and !== undefined) {
        const both = await ask(index, (client, key) => client.zinter(2, [keyed(and.name), key]));
        const older = before === null ? both : both.filter((member) => member < memberOf(before));
        return older
          .toReversed()
          .slice(skip, skip + limit)
          .map(positionOf);
      }
      const from = before === null ? "+" : `(${memberOf(before)}`;
      const members = await ask(index, (client, key) =>
        client.zrevrangebylex(key, from, "-", "LIMIT", skip, limit),
      );
      return members.map(positionOf);
    },
    oldest: async (index, { limit = Infinity, skip = 0, and } = {}) => {
      const last = Number.isFinite(limit) ? skip + limit - 1 : -1;
      const members = await ask(index, (client, key) =>
        and === undefined
          ? client.zrange(key, String(skip), String(last))
          : client.zinter(2, [keyed(and.name), key]),
      );
      return index.order === "creation" ? members.map((member) => positionOf(member).id) : members;
    },
    due: (index, until, skip = 0) =>
      ask(index, (client, key) => client.zrangebyscore(key, "-inf", until, "LIMIT", skip, maxBatch)),
    startingWith: async (beginning, limit) => {
      const [from, to] = [`[${beginning}`, `(${beginning}~`];
      return await kv.ask((client) => client.zrangebylex(keyed(idsIndex), from, to, "LIMIT", 0, limit));
    },
    values: async (index) => {
      const all = await ask(index, (client, key) => client.hgetall(key));
      return Object.entries(all).flatMap(([id, text]) => valueOf(id, text));
    },
    count: (index) => ask(index, (client, key) => client.zcard(key)),

    expire: async (at) => {
      if (kind.redis.swept !== undefined) await sweep(kind.redis.swept, at.getTime());
    },

    increment: async (counter) => {
      await ask(tally, (client, key) => client.hincrby(key, counter, 1));
    },
    counters: async (names) => {
      const counts = await ask(tally, (client, key) => client.hmget(key, ...names));
      return counts.map((count) => Number(count ?? 0));
    },

    check: kv.check,
    // The caller closes the connection.
    close: idle,
  };
};

const tally: Index = { name: "tally", order: "none" };

/** Nothing for a value that is no list, which this service never writes. */
const valueOf = (id: string, text: string): [id: string, value: unknown][] => {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? [[id, value]] : [];
  } catch {
    return [];
  }
};
