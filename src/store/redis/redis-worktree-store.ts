import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import { isJobId } from "../stored-job.ts";
import { byAge, parseWorktree } from "../stored-worktree.ts";
import type { WorktreeRecord, WorktreeStore } from "../worktree-store.ts";
import { createScript } from "./script.ts";

type Dependencies = { kv: Kv; log: Log };

/** Key: the worktrees. Arguments: id, the text it must have, the new text. Answers 1; 0: it has another, or is gone. */
const changeWorktree = createScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
`);

/** All records in one hash: there are few, and they are listed more often than changed. */
export const openRedisWorktreeStore = ({ kv, log }: Dependencies): WorktreeStore => {
  const key = kv.jobKey("prepared");
  const warned = new Set<string>();

  const parse = (id: string, text: string): WorktreeRecord | null => {
    const record = parseWorktree(text, id);
    if (record === null && !warned.has(id)) {
      warned.add(id);
      log.warn({ worktree: id }, "stored worktree skipped: it is no record of this version");
    }
    return record;
  };

  const read = async (id: string): Promise<{ text: string; record: WorktreeRecord } | null> => {
    const text = isJobId(id) ? await kv.ask((client) => client.hget(key, id)) : null;
    const record = text === null ? null : parse(id, text);
    return text === null || record === null ? null : { text, record };
  };

  const update: WorktreeStore["update"] = async (id, statuses, patch) => {
    const before = await read(id);
    if (before === null || !statuses.includes(before.record.status)) return null;
    const next = { ...before.record, ...patch };
    const done = await kv.ask((client) =>
      changeWorktree(client, [key], [id, before.text, JSON.stringify(next)]),
    );
    // A lost race is no refusal: what the record says now decides.
    return done === 1 ? next : await update(id, statuses, patch);
  };

  return {
    create: async (record) => {
      await kv.ask((client) => client.hset(key, record.worktree_id, JSON.stringify(record)));
    },
    get: async (id) => (await read(id))?.record ?? null,
    list: async () => {
      const all = await kv.ask((client) => client.hgetall(key));
      return Object.entries(all)
        .flatMap(([id, text]) => parse(id, text) ?? [])
        .toSorted(byAge);
    },
    update,
    remove: async (id) => {
      if (isJobId(id)) await kv.ask((client) => client.hdel(key, id));
    },
    // The connection belongs to whoever opened it.
    close: async () => undefined,
  };
};
