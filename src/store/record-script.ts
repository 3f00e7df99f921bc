import { createScript } from "../kv/script.ts";

/*
 * The client of a Cluster sends a command again, by itself, when the connection broke before the answer: the script knows its
 * own work by the version that it wrote, and says once more what it said.
 */

/** What the answer begins with when nothing was done because an index, whose key follows, holds another type of value. */
export const foreign = "foreign:";

/**
 * Changes a record and the indexes in its slot. Keys: the record, then those that conditions and commands name by number.
 * Arguments: 1 layout, 2 field (of the version, or of the record in a table), 3 the version that the record must have (empty:
 * none), 4 the version it gets, 5 the record (empty: it is deleted), 6 what its field `output` gets (`-`: it has none), 7
 * seconds until it goes (0: it stays), 8 commands `[name, number of the key, argument, …]`, 9 conditions
 * `[what, number of the key, argument, name of the claim]`. Of a string and in a table the record is its own version.
 *
 * Answers `done`; `changed`: it has another version; `full`; `claimed:` and the claim's name and holder; `foreign:` and a key.
 */
export const changeRecord = createScript(`
local record, isHash = KEYS[1], ARGV[1] == 'hash'
local found
if ARGV[1] == 'string' then found = redis.call('GET', record) else found = redis.call('HGET', record, ARGV[2]) end
if found == ARGV[4] then return 'done' end
if (found or '') ~= ARGV[3] then return 'changed' end

local commands = cjson.decode(ARGV[8])
local types = { ZADD = 'zset', ZREM = 'zset', HSET = 'hash', HDEL = 'hash', SADD = 'set', SREM = 'set', SET = 'string' }
for _, command in ipairs(commands) do
  local holds, right = redis.call('TYPE', KEYS[command[2]]).ok, types[command[1]]
  if right and holds ~= 'none' and holds ~= right then return '${foreign}' .. KEYS[command[2]] end
end

for _, condition in ipairs(cjson.decode(ARGV[9])) do
  local what, key, argument = condition[1], KEYS[condition[2]], condition[3]
  if what == 'fewer' and redis.call('ZCARD', key) >= tonumber(argument) then return 'full' end
  if what == 'member' and redis.call('SISMEMBER', key, argument) == 1 then return 'claimed:' .. condition[4] .. ':' end
  local holder = what == 'holder' and redis.call('GET', key)
  if holder and holder ~= argument then return 'claimed:' .. condition[4] .. ':' .. holder end
end

if ARGV[5] ~= '' then
  if ARGV[1] == 'string' then redis.call('SET', record, ARGV[5])
  elseif ARGV[1] == 'table' then redis.call('HSET', record, ARGV[2], ARGV[5])
  else redis.call('HSET', record, ARGV[2], ARGV[4], 'json', ARGV[5]) end
  if ARGV[6] ~= '-' then redis.call('HSET', record, 'output', ARGV[6]) end
  if ARGV[7] ~= '0' then redis.call('EXPIRE', record, ARGV[7])
  elseif isHash then redis.call('PERSIST', record) end
elseif ARGV[1] == 'string' then
  -- Not deleted at once: sent a second time it must be known as removed by this caller.
  redis.call('SET', record, ARGV[4], 'EX', ARGV[7])
elseif isHash then redis.call('DEL', record)
else redis.call('HDEL', record, ARGV[2]) end
for _, command in ipairs(commands) do redis.call(command[1], KEYS[command[2]], unpack(command, 3)) end
return 'done'
`);

/** Key: a sorted set. Arguments: member, the highest score with which it may go. */
export const dropUpTo = createScript(`
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1`);
