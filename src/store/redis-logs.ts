import { createScript, type Kv } from "../kv/kv.ts";
import type { Notifier } from "../lib/notifier.ts";
import { startPosition, type Batch, type Entry, type LogFormat, type Logs } from "./logs.ts";

type Options = {
  kv: Kv;
  /** Of all instances. `waitFor` resolves after a few seconds at the latest, since a notification may be lost. */
  notifier: Notifier;
};

/** A page is at most this many entries and about this many bytes. */
const longestPage = 200;
const pageBytes = 256 * 1024;
const firstPage = 20;

/** A stream per log, which every instance may append to and read. */
export const createRedisLogs = (format: LogFormat, { kv, notifier }: Options): Logs => {
  const keyOf = (id: string): string => kv.key(format.key, id);
  const topicOf = (id: string): string => `${format.topic}:${id}`;

  return {
    shared: true,

    append: async (id, batch) => {
      const size = await kv.ask((client) => append(client, [keyOf(id)], argumentsOf(format, batch)));
      notifier.notify(topicOf(id));
      return Number(size);
    },

    tail: async (id) => {
      const [last] = await kv.ask((client) => client.xrevrange(keyOf(id), "+", "-", "COUNT", 1));
      if (last === undefined) {
        const exists = await kv.ask((client) => client.exists(keyOf(id)));
        return exists === 0 ? null : { position: startPosition, size: 0, state: "unknown" };
      }
      const [position, fields] = last;
      const state = format.isEnd({ position, fields }) ? "ended" : "unknown";
      return { position, size: Number(fields[1]), state };
    },

    reader: (id) => {
      let count = firstPage;
      return async (position) => {
        const found = await kv
          .ask((client) => client.xrange(keyOf(id), `(${position}`, "+", "COUNT", count))
          .catch(() => null);
        if (found !== null && found.length > 0) count = nextCount(found);
        return found?.map(([at, fields]): Entry => ({ position: at, fields })) ?? null;
      };
    },

    changed: (id, signal) => notifier.waitFor(topicOf(id), signal),

    remove: async (id) => {
      await kv.ask((client) => client.unlink(keyOf(id)));
      notifier.notify(topicOf(id));
    },
  };
};

const nextCount = (page: readonly [id: string, fields: string[]][]): number => {
  const bytes = page.reduce((sum, [, fields]) => sum + (fields[3]?.length ?? 0), 0);
  return Math.max(1, Math.min(longestPage, Math.floor((pageBytes * page.length) / Math.max(1, bytes))));
};

/** Entries at the end of a log that are searched for a retried batch: other instances may have appended since. */
const lookBack = 100;

/**
 * Key: the stream. Arguments: 1 the batch's name and 2 its field, 3 whether it is a retry, 4 whether the log is reset, 5
 * whether entries are numbered, 6 most entries, 7 seconds until the stream expires, 8 whether the log ends, 9 whether the
 * first entry is for an empty log only, 10 length of an entry, from 11 on the names and values of all entries.
 *
 * The last entry of a batch has its name, `{writer}:{number}`. A batch is done when its writer has written it or a later one:
 * the client may also send a command again long after the writer has gone on. A numbered entry is `{seq}-0` and begins with `s`, the size of the log up to and
 * with it. An entry `{seq}-1` ends the log at event `seq`, until something is appended again.
 */
const append = createScript(`
local name, numbered, width, from = ARGV[1], ARGV[5] == '1', tonumber(ARGV[10]), 11
-- The client may send a command again by itself.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[3] == '1' and ${lookBack} or 1)
local last, seq, size = newest[1], 0, 0
if last and numbered then
  seq = tonumber(string.match(last[1], '^(%d+)'))
  size = tonumber(last[2][2])
end
local writer, number = string.match(name, '^(.*):(%d+)$')
for _, entry in ipairs(newest) do
  local fields = entry[2]
  local by, done = string.match(fields[#fields - 1] == ARGV[2] and fields[#fields] or '', '^(.*):(%d+)$')
  if by and by == writer and tonumber(done) >= tonumber(number) then return size end
end
if ARGV[4] == '1' then
  -- The stream is emptied, not deleted: readers of a missing stream end, and ids must continue after the old ones.
  redis.call('XADD', KEYS[1], '*', ARGV[2], name)
  redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
end
if ARGV[9] == '1' and last then from = from + width end
for at = from, #ARGV, width do
  local id, entry = '*', {}
  if numbered then
    seq = seq + 1
    size = size + #ARGV[at + 1]
    id, entry = string.format('%d-0', seq), {'s', size}
  end
  for field = at, at + width - 1 do entry[#entry + 1] = ARGV[field] end
  if at + width > #ARGV then
    entry[#entry + 1] = ARGV[2]
    entry[#entry + 1] = name
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[6], id, unpack(entry))
end
if numbered and ARGV[8] == '1' and seq > 0 and (#ARGV >= from or not string.match(last[1], '%-1$')) then
  redis.call('XADD', KEYS[1], string.format('%d-1', seq), 's', size, ARGV[2], name)
end
redis.call('EXPIRE', KEYS[1], ARGV[7])
return size`);

const argumentsOf = ({ batchField, numbered, maxEntries }: LogFormat, batch: Batch): string[] => {
  const entries = batch.first === null ? batch.entries : [batch.first, ...batch.entries];
  const flag = (value: boolean): string => (value ? "1" : "0");
  return [
    batch.name,
    batchField,
    flag(batch.isRetry),
    flag(batch.reset),
    flag(numbered),
    String(maxEntries),
    String(batch.seconds),
    flag(batch.isEnd),
    flag(batch.first !== null),
    String(entries[0]?.length ?? 2),
    ...entries.flat(),
  ];
};
