import { failureOf } from "../kv/failure.ts";
import type { Kv, KvClient } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { createTurns } from "../lib/turns.ts";
import { idIn, memberOf, positionOf } from "./index-commands.ts";
import { foreign } from "./record-script.ts";
import { atOnce, type Change, type Creation, type Index, type Kind, type Records } from "./records.ts";
import { createRedisRows, noRow, nullIfForeign, type Row, type Write } from "./redis-rows.ts";

type Options = { kv: Kv; now: () => Date; log: Log };

/** A writer that has told the index and not yet written the record gets this long, ms. */
const writersGrace = 600_000;

/**
 * Records in the key-value store. Those in one slot with their indexes are changed by one script; of the others an index is
 * told before the record is written and after it has left, so that a crash in between leaves an entry too many and never one
 * too few: the record decides what an entry is worth. Nothing is answered from memory.
 */
export const openRedisRecords = <T extends object>(kind: Kind<T>, { kv, now, log }: Options): Records<T> => {
  const { oneSlot, layout } = kind.redis;
  const isTable = layout === "table";
  const { inTurn, settled } = createTurns();
  const rows = createRedisRows({ kv, kind, log });
  const { keyed, keyOf, entriesOf, drop } = rows;

  const read = async (id: string): Promise<Row<T>> => {
    const row = await rows.read(id);
    if (row.isForeign) await unlist(id);
    return row;
  };

  /** An index that holds another type of value is made anew first. */
  const write = async (request: Write<T>): Promise<string> => {
    const answer = await rows.write(request);
    if (!answer.startsWith(foreign)) return answer;
    await heal(answer.slice(foreign.length));
    return await write(request);
  };

  const change = async (
    id: string,
    next: (current: T | null) => T | null | undefined,
  ): Promise<Change<T>> => {
    for (;;) {
      const row = await read(id);
      const { record: before } = row;
      const after = next(before);
      if (after === undefined || (after === null && before === null))
        return { before, after: before, changed: false };
      if ((await write({ id, row, next: after })) === "done") return { before, after, changed: true };
    }
  };

  /** Nothing is left of the record: no list shows it any more, and no sweep finds it for ever. */
  const unlist = async (id: string): Promise<void> => {
    if (!oneSlot) return;
    const unrank = async (index: Index): Promise<void> => {
      const key = keyed(index.name);
      if (index.order === "none") return void (await kv.ask((client) => client.hdel(key, id)));
      if (index.order === "time") return void (await kv.ask((client) => client.zrem(key, id)));
      const pattern = ["MATCH", `*_${id}`, "COUNT", "1000000000"] as const;
      const [, [member]] = await kv.ask((client) => client.zscan(key, "0", ...pattern));
      if (member !== undefined) await kv.ask((client) => client.zrem(key, member));
    };
    await Promise.allSettled(kind.redis.lists.map(unrank));
  };

  const healing = new Map<string, Promise<void>>();

  /** Makes an index anew from the records, which somebody has overwritten with another type of value. */
  const heal = (key: string): Promise<void> => {
    const healed = healing.get(key) ?? rebuild(key).finally(() => healing.delete(key));
    healing.set(key, healed);
    return healed;
  };

  const rebuild = async (key: string): Promise<void> => {
    log.warn({ key }, `a key of the index of ${kind.noun}s held another type of value; it is made anew`);
    await kv.ask((client) => client.del(key));
    const ids = await listed();
    while (ids.length > 0) await Promise.all(ids.splice(0, atOnce).map(enlist));
  };

  const enlist = async (id: string): Promise<void> => {
    for (let row = await read(id); row.record !== null; row = await read(id))
      if ((await write({ id, row, next: row.record, anew: true })) === "done") return;
  };

  const listed = async (): Promise<string[]> => {
    if (isTable) return await kv.ask((client) => client.hkeys(keyOf("")));
    const lists = kind.redis.lists.filter(({ order }) => order === "creation");
    const members = await Promise.all(
      lists.map(({ name }) => kv.ask((client) => client.zrange(keyed(name), "0", "-1")).catch(nullIfForeign)),
    );
    return [...new Set(members.flatMap((some) => some ?? []).map((member) => positionOf(member).id))];
  };

  /** Asks an index. One that holds another type of value is made anew first. */
  const ask = async <Value>(
    { name }: Index,
    work: (client: KvClient, key: string) => Promise<Value>,
  ): Promise<Value> => {
    const asked = (): Promise<Value> => kv.ask((client) => work(client, keyed(name)));
    return await asked().catch(async (error: unknown) => {
      if (failureOf(error) !== "value" || !oneSlot) throw error;
      await heal(keyed(name));
      return await asked();
    });
  };

  const due = (index: Index, until: number): Promise<string[]> =>
    ask(index, (client, key) => client.zrangebyscore(key, "-inf", until, "LIMIT", 0, atOnce));

  /** Takes what is over out of the store; of several instances that do, one gets each. */
  const take = async (index: Index, at: number): Promise<T[]> => {
    const taken: T[] = [];
    for (const id of await due(index, at)) {
      const isOver = (record: T | null): boolean =>
        record !== null && (kind.expires?.(record) ?? at + 1) <= at;
      const { before, changed } = await change(id, (current) => (isOver(current) ? null : undefined));
      await drop(index, id, at);
      if (changed && before !== null) taken.push(before);
    }
    return taken;
  };

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
      const asked = claims.map(({ name, value, holder }): [string, string, string, string] =>
        holder ? ["holder", `${name}:${value}`, ignored, name] : ["member", name, value, name],
      );
      const most = Math.min(limit?.most ?? Infinity, Number.MAX_SAFE_INTEGER);
      const fewer = limit === undefined ? [] : [["fewer", limit.index.name, String(most), ""] as const];
      const conditions = [
        ...asked.filter(([what]) => what === "holder"),
        ...fewer.map((each): [string, string, string, string] => [...each]),
        ...asked.filter(([what]) => what === "member"),
      ];
      const answer = await write({ id, row: noRow, next: record, conditions });
      if (answer === "done") return "created";
      if (answer === "full") return "full";
      const [, claimed = "", by = ""] = answer.split(":");
      return { claimed, by: by === "" ? null : by };
    },

    change: (id, next) => inTurn(id, () => change(id, next)),

    all: async () => {
      if (isTable) {
        const texts = await kv.ask((client) => client.hgetall(keyOf("")));
        return Object.entries(texts).flatMap(([id, text]) => rows.parse(id, text) ?? []);
      }
      const found = await Promise.all((await listed()).map(read));
      return found.flatMap(({ record }) => record ?? []);
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
    due,
    values: async (index) => {
      const all = await ask(index, (client, key) => client.hgetall(key));
      return Object.entries(all).flatMap(([id, text]) => valueOf(id, text));
    },
    count: (index) => ask(index, (client, key) => client.zcard(key)),

    expire: async (at) => {
      const { expiry, lists } = kind.redis;
      if (expiry !== undefined) return await take(expiry.index, at.getTime());
      if (!oneSlot) for (const index of lists) await sweep(index, at.getTime());
      return [];
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
