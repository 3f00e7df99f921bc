import type { Kv } from "../../kv/kv.ts";
import { busLimits, BusEvent } from "../event-bus.ts";
import { createScript } from "./script.ts";

/** What goes to a stream at once. */
export type BusBatch = {
  /** Tells a batch that was written although the answer was lost from one that was not. */
  name: string;
  /** What the stream held before is removed. */
  isFirst: boolean;
  events: readonly BusEvent[];
};

/** A stream whose `done` never comes goes this long after its last event, s: no turn is longer. */
const neverDone = 8 * 86_400;

/**
 * Key: the stream. Arguments: the batch's name, whether it is the first, seconds until the stream goes, and five fields of each event.
 * The last entry has the name in `batch`; that of a batch without events is left as the last id of an empty stream.
 */
const append = createScript(`
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last and last[2][11] == 'batch' and last[2][12] == ARGV[1] then return 1 end
if ARGV[2] == '1' then
  -- An empty stream: readers wait at one, and leave where there is none. Not a new one: ids go on behind the old ones.
  redis.call('XADD', KEYS[1], '*', 'batch', ARGV[1])
  redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
end
for at = 4, #ARGV, 5 do
  local entry = {'event_type', ARGV[at], 'content', ARGV[at + 1], 'ts', ARGV[at + 2], 'session_id', ARGV[at + 3],
    'correlation_id', ARGV[at + 4]}
  if at + 5 > #ARGV then
    entry[11] = 'batch'
    entry[12] = ARGV[1]
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', ${busLimits.entries}, '*', unpack(entry))
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1`);

/** Appends the events, and has the stream expire. Sent again with the same name, while nobody else has written, it does nothing. */
export const appendToBus = async (
  kv: Kv,
  key: string,
  { name, isFirst, events }: BusBatch,
): Promise<void> => {
  const isDone = events.at(-1)?.event_type === "done";
  const life = isDone ? busLimits.secondsAfterDone : neverDone;
  const fields = events.flatMap((event) => [
    event.event_type,
    event.content,
    event.ts,
    event.session_id,
    event.correlation_id,
  ]);
  const args = [name, isFirst ? "1" : "0", String(life), ...fields];
  await kv.ask((client) => append(client, [key], args));
};

/** Null: not an event of this version. */
export const eventOf = (fields: readonly string[]): BusEvent | null => {
  const values: Record<string, string> = {};
  for (let at = 0; at < fields.length; at += 2) values[fields[at] ?? ""] = fields[at + 1] ?? "";
  return BusEvent.safeParse(values).data ?? null;
};
