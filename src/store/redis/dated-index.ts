import type { Kv } from "../../kv/kv.ts";
import { createScript } from "./script.ts";

/** Key: a sorted set. Arguments: member, the highest score with which it may go. */
const drop = createScript(`
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1`);

/** Takes a member out unless somebody has given it a later time meanwhile. */
export const dropEntry = async (
  kv: Kv,
  index: string,
  member: string,
  { upTo }: { upTo: number },
): Promise<void> => {
  await kv.ask((client) => drop(client, [index], [member, String(upTo)]));
};
