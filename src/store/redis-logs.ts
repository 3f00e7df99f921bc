import { createScript, type Kv } from "../kv/kv.ts";
import type { Notifier } from "../lib/notifier.ts";
import type { Batch, Entry, Logs } from "./logs.ts";

type Options = {
  kv: Kv;
  /** Of all instances. `waitFor` resolves after a few seconds at the latest, since a notification may be lost. */
  notifier: Notifier;
  /** Logs have the keys `{prefix}:{name}:{id}`, and only their newest entries are retained. */
  name: string;
  maxEntries: number;
};

/** Entries of a page; each has some 64 KiB at most. */
const pageEntries = 50;

/** A stream per log, which every instance may append to and read. */
export const createRedisLogs = ({ kv, notifier, name, maxEntries }: Options): Logs => {
  const keyOf = (id: string): string => kv.key(name, id);
  const topicOf = (id: string): string => `${name}:${id}`;

  return {
    shared: true,

    append: async (id, batch) => {
      const args = argumentsOf(batch, maxEntries);
      const [number, size] = (await kv.ask((client) => append(client, [keyOf(id)], args))) as [
        number,
        number,
      ];
      notifier.notify(topicOf(id));
      return { number, size };
    },

    tail: async (id) => {
      const [last] = await kv.ask((client) => client.xrevrange(keyOf(id), "+", "-", "COUNT", 1));
      if (last === undefined) return null;
      const [position, fields] = last;
      return { number: Number.parseInt(position, 10), size: Number(fields.at(-1)?.split(" ")[1] ?? 0) };
    },

    read: async (id, after) => {
      const found = await kv
        .ask((client) => client.xrange(keyOf(id), `(${after}-0`, "+", "COUNT", pageEntries))
        .catch(() => null);
      return found && { entries: found.map(entryOf), at: 0 };
    },

    changed: (id, signal) => notifier.waitFor(topicOf(id), signal),

    remove: async (id) => {
      await kv.ask((client) => client.unlink(keyOf(id)));
      notifier.notify(topicOf(id));
    },
  };
};

const entryOf = ([position, flat]: [string, string[]]): Entry => {
  const fields: Record<string, string> = {};
  for (let at = 0; at < flat.length; at += 2) fields[flat[at] ?? ""] = flat[at + 1] ?? "";
  return { number: Number.parseInt(position, 10), fields };
};

/**
 * Key: the stream. Arguments: 1 the batch's name, 2 the last entry that its writer knows, 3 number of the first entry of an
 * empty log, 4 most entries, 5 seconds until the stream expires, 6 length of an entry, from 7 on the names and values of all
 * entries. Answers the number of the last entry and the size of the log.
 *
 * The last entry of a batch has the batch's name and the size of the log. The client of a Cluster sends a command again when
 * the connection breaks before the reply, even after later ones: a batch that is there already is not appended again.
 */
const append = createScript(`
local width = tonumber(ARGV[6])
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local number, size = tonumber(ARGV[3]) - 1, 0
if newest then
  number = tonumber(string.match(newest[1], '^%d+'))
  size = tonumber(string.match(newest[2][#newest[2]], ' (%d+)$'))
end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[2] .. '-0', '+')) do
  if string.find(entry[2][#entry[2]], ARGV[1] .. ' ', 1, true) == 1 then return {number, size} end
end
for at = 7, #ARGV, width do
  number = number + 1
  local entry = {}
  for field = at, at + width - 1 do
    entry[#entry + 1] = ARGV[field]
    size = size + #ARGV[field]
  end
  if at + width > #ARGV then
    entry[#entry + 1] = 'batch'
    entry[#entry + 1] = string.format('%s %.0f', ARGV[1], size)
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[4], string.format('%.0f-0', number), unpack(entry))
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
return {number, size}`);

const argumentsOf = ({ name, known, start, entries, seconds }: Batch, maxEntries: number): string[] => {
  const flat = entries.map((fields) => Object.entries(fields).flat());
  return [name, ...[known.number, start, maxEntries, seconds, flat[0]?.length].map(String), ...flat.flat()];
};
