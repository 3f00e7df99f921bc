import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { zstdCompress, zstdDecompress } from "node:zlib";
import { createScript, type Kv } from "../kv/kv.ts";
import type { Notifier } from "../lib/notifier.ts";
import type { Corpus, Source } from "./corpus.ts";

/** A place among the changes. The epoch is the store's: one that has lost its data has another. */
export type Position = { epoch: string; version: number };

/** Sources that changed after a position; `source` null: it was removed. */
type Changes = { position: Position; changes: { id: string; source: Source | null }[] };

export type SharedCorpus = Corpus & {
  /**
   * At most a page, from the beginning without a position; none: there is nothing after it. A removed source stays a change
   * for ever. Null: the store has lost what it had: begin anew.
   */
  changesAfter: (position: Position | null) => Promise<Changes | null>;
  /** Resolves when something may have changed. */
  changed: (signal: AbortSignal) => Promise<void>;
};

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const page = 500;
const topic = "transcripts";

/**
 * The corpus in the key-value store, in one slot: a hash of sources, a hash of compressed chunks by their place for each
 * source and generation, and a sorted set of ids by the version that last changed them.
 */
export const openRedisCorpus = ({ kv, notifier }: { kv: Kv; notifier: Notifier }): SharedCorpus => {
  const key = (...parts: string[]): string => [`{${kv.prefix}:t}`, ...parts].join(":");
  const chunksKey = (id: string, generation: number): string => key("chunks", id, String(generation));
  const common = [key("sources"), key("changed"), key("version"), key("epoch")];

  const changesAfter = async (position: Position | null): Promise<Changes | null> => {
    const [newest, now] = await kv.ask((client) => client.mget(key("version"), key("epoch")));
    const { epoch, version } = position ?? { epoch: now ?? "", version: 0 };
    if (epoch !== (now ?? "") || Number(newest) < version) return null;
    const found = await kv.ask((client) =>
      client.zrangebyscore(key("changed"), `(${version}`, "+inf", "WITHSCORES", "LIMIT", 0, page),
    );
    const ids = found.filter((_, index) => index % 2 === 0);
    if (ids.length === 0) return { position: { epoch, version }, changes: [] };
    const texts = await kv.ask((client) => client.hmget(key("sources"), ...ids));
    const changes = ids.map((id, index) => {
      const text = texts[index] ?? null;
      return { id, source: text === null ? null : (JSON.parse(text) as Source) };
    });
    return { position: { epoch, version: Number(found.at(-1)) }, changes };
  };

  return {
    changesAfter,

    sources: async () => {
      const sources = new Map<string, Source>();
      for (let position: Position | null = null; ;) {
        const next: Changes | null = await changesAfter(position);
        if (next === null) return sources;
        for (const { id, source } of next.changes) if (source !== null) sources.set(id, source);
        if (next.changes.length === 0) return sources;
        position = next.position;
      }
    },

    put: async (source, chunks) => {
      const packed = await Promise.all(
        chunks.map(async ({ from, bytes }) => [String(from), await compress(bytes)] as const),
      );
      const { id, generation, collected } = source;
      const begin = chunks[0]?.from ?? collected;
      const args = [id, JSON.stringify(source), generation, begin, key("chunks", id), randomUUID()].map(
        String,
      );
      const keys = [...common, chunksKey(id, generation)];
      const done = await kv.ask((client) => store(client, keys, [...args, ...packed.flat()]));
      if (done === 1) notifier.notify(topic);
      return done === 1;
    },

    remove: async (ids) => {
      for (const id of ids)
        await kv.ask((client) => drop(client, common, [id, key("chunks", id), randomUUID()]));
      notifier.notify(topic);
    },

    chunksFrom: async function* ({ id, generation }, from) {
      const chunks = chunksKey(id, generation);
      const places = await kv.ask((client) => client.hkeys(chunks));
      const wanted = places.map(Number).filter((place) => place >= from);
      for (const place of wanted.toSorted((a, b) => a - b)) {
        const packed = await kv.ask((client) => client.hgetBuffer(chunks, String(place)));
        if (packed === null) return;
        yield { source_id: id, generation, from: place, bytes: await decompress(packed) };
      }
    },

    changed: (signal) => notifier.waitFor(topic, signal),
  };
};

/**
 * A version is the store's time, µs, so that none is used twice after the store has lost its last writes.
 * Keys of both scripts: sources, changed, version, epoch. The first to write gives the store its epoch.
 */
const nextVersion = `
local function touch(id, epoch)
  redis.call('SET', KEYS[4], epoch, 'NX')
  local time = redis.call('TIME')
  local version = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', KEYS[3]) or '0')
  if version <= last then version = last + 1 end
  local text = string.format('%.0f', version)
  redis.call('SET', KEYS[3], text)
  redis.call('ZADD', KEYS[2], text, id)
end`;

/**
 * Key 5: the chunks. Arguments: id, the source, its generation, where its first chunk begins, the chunks' key without a
 * generation, a new epoch, then places and chunks. Answers 1, or 0 when something else is stored. A script that is sent twice finds its
 * own work.
 */
const store = createScript(`${nextVersion}
local id, text, generation, begin = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local found = redis.call('HGET', KEYS[1], id)
if found == text then return 1 end
local before = found and cjson.decode(found)
if before and generation < before.generation then return 0 end
local isSame = before and generation == before.generation
if begin ~= (isSame and before.collected or 0) then return 0 end
if before and not isSame then redis.call('DEL', ARGV[5] .. ':' .. string.format('%.0f', before.generation)) end
if not before then redis.call('DEL', KEYS[5]) end
for at = 7, #ARGV, 2 do redis.call('HSET', KEYS[5], ARGV[at], ARGV[at + 1]) end
redis.call('HSET', KEYS[1], id, text)
touch(id, ARGV[6])
return 1`);

/** Arguments: id, the chunks' key without a generation, a new epoch. */
const drop = createScript(`${nextVersion}
local found = redis.call('HGET', KEYS[1], ARGV[1])
if not found then return 1 end
local generation = string.format('%.0f', cjson.decode(found).generation)
redis.call('DEL', ARGV[2] .. ':' .. generation)
redis.call('HDEL', KEYS[1], ARGV[1])
touch(ARGV[1], ARGV[3])
return 1`);
