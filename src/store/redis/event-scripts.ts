import type { Kv } from "../../kv/kv.ts";
import { createScript } from "./script.ts";

/**
 * The log of one job is a stream. An event's entry is `{seq}-0` with `s`, the size of the log up to and with it, and `e`,
 * the event as JSON without its number; the last of a batch has the batch's name in `w`. An entry `{seq}-1` says that
 * nothing follows event `seq`, until something does; it has the name too.
 */
export type Batch = {
  /** Tells a batch that was written although the answer was lost from one that was not. */
  name: string;
  /** Whether it was sent before. */
  again: boolean;
  /** The events as JSON. */
  lines: string[];
  /** Whether nothing follows them. */
  isEnd: boolean;
};

const lastEntry = `
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local seq, size = 0, 0
if last then
  seq = tonumber(string.match(last[1], '^(%d+)'))
  size = tonumber(last[2][2])
end`;

/** Entries at the end of a log among which a batch that was sent before is looked for: others may have written since. */
const lookBack = 100;

const append = createScript(`${lastEntry}
local function isOfBatch(fields)
  return (fields[5] == 'w' and fields[6] == ARGV[2]) or (fields[3] == 'w' and fields[4] == ARGV[2])
end
-- The client may send a command a second time by itself.
if last and isOfBatch(last[2]) then return size end
if ARGV[3] == '1' then
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ${lookBack})) do
    if isOfBatch(entry[2]) then return size end
  end
end
local function put(line, name)
  seq = seq + 1
  size = size + #line
  local id = string.format('%d-0', seq)
  if name then redis.call('XADD', KEYS[1], id, 's', size, 'e', line, 'w', name)
  else redis.call('XADD', KEYS[1], id, 's', size, 'e', line) end
end
if not last and ARGV[4] ~= '' then put(ARGV[4]) end
for i = 6, #ARGV do put(ARGV[i], i == #ARGV and ARGV[2] or nil) end
if ARGV[5] == '1' and seq > 0 and (#ARGV > 5 or not string.match(last[1], '%-1$')) then
  redis.call('XADD', KEYS[1], string.format('%d-1', seq), 's', size, 'w', ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return size`);

/** Appends the events with the next numbers, after `first` when the log is empty, and the mark of the end. Resolves to the log's size in bytes. */
export const appendBatch = async (
  kv: Kv,
  key: string,
  { batch, first, expireSeconds }: { batch: Batch; first: string; expireSeconds: number },
): Promise<number> => {
  const { name, again, lines, isEnd } = batch;
  const args = [String(expireSeconds), name, again ? "1" : "0", first, isEnd ? "1" : "0", ...lines];
  return (await kv.ask((client) => append(client, [key], args))) as number;
};

/** Where a log ends at present, or null when it is empty. */
export const endOf = async (
  kv: Kv,
  key: string,
): Promise<{ seq: number; ended: boolean; size: number } | null> => {
  const [last] = await kv.ask((client) => client.xrevrange(key, "+", "-", "COUNT", 1));
  if (last === undefined) return null;
  const [id, fields] = last;
  return { seq: seqOf(id), ended: id.endsWith("-1"), size: Number(fields[1]) };
};

export const seqOf = (id: string): number => Number(id.split("-")[0]);
