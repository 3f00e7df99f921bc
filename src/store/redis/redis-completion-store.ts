import { randomUUID } from "node:crypto";
import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import {
  isCompletionId,
  isUnfinished,
  parseCompletion,
  type CompletionRecord,
  type CompletionStore,
} from "../completion-store.ts";
import { completionIndexes, createdOf, indexOf, isStale } from "./completion-indexes.ts";
import { failureOf } from "../../kv/failure.ts";
import { createScript } from "./script.ts";

type Options = { kv: Kv; ttlSeconds: number; log: Log };

/** What is stored of a completion: `write` is another one after each change. */
type Row = { write: string; record: CompletionRecord | null };

/**
 * Key: the completion. Arguments: the write that it must have been (empty: there is none), this write, the record, seconds
 * until it goes (0: it stays). Answers 1; 0: somebody else has written it.
 */
const change = createScript(`
local write = redis.call('HGET', KEYS[1], 'write') or ''
if write == ARGV[2] then return 1 end
if write ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'write', ARGV[2], 'json', ARGV[3])
if ARGV[4] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('EXPIRE', KEYS[1], ARGV[4]) end
return 1`);

/** Records that are read at once. */
const pageSize = 50;

/** A hash `{prefix}:completion:{uuid}` each, and indexes beside them. */
export const createRedisCompletionStore = ({ kv, ttlSeconds, log }: Options): CompletionStore => {
  const keyOf = (uuid: string): string => kv.key("completion", uuid);
  const indexes = completionIndexes(kv);
  const warned = new Set<string>();

  const read = async (uuid: string): Promise<Row> => {
    const fields = await kv
      .ask((client) => client.hmget(keyOf(uuid), "write", "json"))
      .catch((error: unknown) => {
        if (failureOf(error) !== "value") throw error;
        return ["", ""];
      });
    const [write = null, text = null] = fields;
    const record = text === null ? null : parseCompletion(text, uuid);
    if (text !== null && record === null && !warned.has(uuid)) {
      warned.add(uuid);
      log.warn({ completion: uuid }, "stored completion skipped: it is no record of this version");
    }
    return { write: write ?? "", record };
  };

  const write = async (before: string, record: CompletionRecord): Promise<boolean> => {
    const life = isUnfinished(record) ? 0 : Math.max(1, Math.ceil(ttlSeconds));
    const args = [before, randomUUID(), JSON.stringify(record), String(life)];
    return (await kv.ask((client) => change(client, [keyOf(record.uuid)], args))) === 1;
  };

  const create: CompletionStore["create"] = async (record) => {
    const { uuid } = record;
    if (!isCompletionId(uuid)) throw new Error("the id of a completion is letters, digits and -_.:");
    const row = await read(uuid);
    if (row.record !== null && isUnfinished(row.record)) return false;
    const created = createdOf(record);
    await Promise.all([indexes.add("all", uuid, created), indexes.add("unfinished", uuid, created)]);
    return (await write(row.write, record)) || (await create(record));
  };

  const update: CompletionStore["update"] = async (uuid, epoch, changes) => {
    const { write: before, record } = await readKnown(uuid);
    if (record === null || !isUnfinished(record) || record.epoch !== epoch) return false;
    const next = { ...record, ...changes, uuid };
    const created = createdOf(next);
    if (!isUnfinished(next)) await indexes.add(indexOf(next.status), uuid, created);
    // A lost race is no refusal: what the record says now decides.
    if (!(await write(before, next))) return await update(uuid, epoch, changes);
    // The record is written: what remains in the index is found out by whoever reads it.
    if (!isUnfinished(next)) await indexes.drop("unfinished", { uuid, created }).catch(() => undefined);
    return true;
  };

  const readKnown = async (uuid: string): Promise<Row> =>
    isCompletionId(uuid) ? await read(uuid) : { write: "", record: null };

  return {
    create,
    update,
    get: async (uuid) => (await readKnown(uuid)).record,

    list: async ({ limit, status }) => {
      const found = new Map<string, CompletionRecord>();
      for (let start = 0; ; start += pageSize) {
        const uuids = await indexes.page(indexOf(status), start, pageSize);
        for (const { record } of await Promise.all(uuids.map(read))) {
          if (record === null || (status !== "all" && record.status !== status)) continue;
          found.set(record.uuid, record);
          if (found.size === limit) return [...found.values()];
        }
        if (uuids.length < pageSize) return [...found.values()];
      }
    },

    unfinished: async () => {
      const entries = await indexes.oldest("unfinished", 100_000);
      const records: CompletionRecord[] = [];
      for (let at = 0; at < entries.length; at += pageSize) {
        const part = entries.slice(at, at + pageSize);
        const rows = await Promise.all(part.map(({ uuid }) => read(uuid)));
        records.push(
          ...rows.flatMap(({ record }) => (record !== null && isUnfinished(record) ? record : [])),
        );
      }
      return records;
    },

    tidy: async (at) => {
      for (const name of indexes.names) {
        for (const entry of await indexes.oldest(name)) {
          const { record } = await read(entry.uuid);
          if (isStale(name, entry, record, at.getTime())) await indexes.drop(name, entry);
        }
      }
    },
  };
};
