import { createScript } from "./script.ts";

/*
 * The client of a Cluster sends a command again, by itself, when the connection broke before the answer: each script knows
 * its own work by the revision that it wrote, and says once more what it said.
 */

/** What the answer of a script begins with that has done nothing because a key, which follows, holds another type of value. */
export const foreign = "foreign:";

/** Commands of the indexes, as `[name, number of the key, argument, …]`. One that fails would stop the script half way. */
const applyCommands = `
local types = { ZADD = 'zset', ZREM = 'zset', HSET = 'hash', HDEL = 'hash', SADD = 'set', SREM = 'set', SET = 'string' }
local function foreign(commands)
  for _, command in ipairs(cjson.decode(commands)) do
    local key = KEYS[command[2]]
    local found, right = redis.call('TYPE', key).ok, types[command[1]]
    if right and found ~= 'none' and found ~= right then return key end
  end
end
local function apply(commands)
  for _, command in ipairs(cjson.decode(commands)) do
    redis.call(command[1], KEYS[command[2]], unpack(command, 3))
  end
end
`;

/**
 * Keys: the job, its idempotency key, the prefixes, the queued jobs, indexes. Arguments: an id that the idempotency key may
 * have (its record is gone or unreadable), most queued jobs, prefix, revision, record, key of the output, commands.
 * Answers `created`, `full`, `prefix`, `foreign:` and a key, or the id of the job that the idempotency key belongs to.
 */
export const createJob = createScript(`${applyCommands}
if redis.call('HGET', KEYS[1], 'rev') == ARGV[4] then return 'created' end
local wrong = foreign(ARGV[7])
if wrong then return '${foreign}' .. wrong end
local known = redis.call('GET', KEYS[2])
if known and known ~= ARGV[1] then return known end
if redis.call('ZCARD', KEYS[4]) >= tonumber(ARGV[2]) then return 'full' end
if redis.call('SISMEMBER', KEYS[3], ARGV[3]) == 1 then return 'prefix' end
redis.call('HSET', KEYS[1], 'rev', ARGV[4], 'json', ARGV[5], 'output', ARGV[6])
apply(ARGV[7])
return 'created'
`);

/**
 * Keys: the job, indexes. Arguments: the revision that it must have, the new revision, record (empty: the job is deleted),
 * key of the output, commands. Answers 1; 0: the job has another revision, or is gone; `foreign:` and a key.
 */
export const changeJob = createScript(`${applyCommands}
local rev = redis.call('HGET', KEYS[1], 'rev')
if rev == ARGV[2] and ARGV[3] ~= '' then return 1 end
if rev ~= ARGV[1] then return 0 end
local wrong = foreign(ARGV[5])
if wrong then return '${foreign}' .. wrong end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'rev', ARGV[2], 'json', ARGV[3], 'output', ARGV[4])
end
apply(ARGV[5])
return 1
`);
