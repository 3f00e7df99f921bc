import { createScript } from "../kv/script.ts";

/*
 * The client of a Cluster sends a command again, by itself, when the connection broke before the answer: the script knows its
 * own work by the version that it wrote, and says once more what it said.
 */

/**
 * Changes a record and the indexes in its slot. Keys: the record, then those that conditions and commands name by number.
 * Arguments: 1 layout, 2 field (of the version, or of the record in a table), 3 the version that the record must have (empty:
 * none), 4 the version it gets, 5 seconds until it goes (0: it stays), 6 commands `[name, number of the key, argument, …]`,
 * 7 conditions `[what, number of the key, argument]`, from 8 on what is written (nothing: it is deleted): of a string the
 * text, of all others fields and their values. Of a string and in a table the record is its own version.
 *
 * Answers `done`; `changed`: it has another version; `full`; `taken:` and the holder. An index that somebody has overwritten
 * with another type of value is found before anything is written, so that nothing is half done.
 */
export const changeRecord = createScript(`
local record, isString = KEYS[1], ARGV[1] == 'string'
local found
if isString then found = redis.call('GET', record) else found = redis.call('HGET', record, ARGV[2]) end
if found == ARGV[4] then return 'done' end
if (found or '') ~= ARGV[3] then return 'changed' end

local commands = cjson.decode(ARGV[6])
local types = { ZADD = 'zset', ZREM = 'zset', HSET = 'hash', HDEL = 'hash', SADD = 'set', SREM = 'set', SET = 'string' }
for _, command in ipairs(commands) do
  local key, right = KEYS[command[2]], types[command[1]]
  local holds = redis.call('TYPE', key).ok
  if right and holds ~= 'none' and holds ~= right then return redis.error_reply('WRONGTYPE of ' .. key) end
end

for _, condition in ipairs(cjson.decode(ARGV[7])) do
  local what, key, argument = condition[1], KEYS[condition[2]], condition[3]
  if what == 'fewer' and redis.call('ZCARD', key) >= tonumber(argument) then return 'full' end
  if what == 'member' and redis.call('SISMEMBER', key, argument) == 1 then return 'taken:' end
  local holder = what == 'holder' and redis.call('GET', key)
  if holder and holder ~= argument then return 'taken:' .. holder end
end

if ARGV[8] then
  if isString then redis.call('SET', record, ARGV[8]) else redis.call('HSET', record, unpack(ARGV, 8)) end
  if ARGV[5] ~= '0' then redis.call('EXPIRE', record, ARGV[5]) else redis.call('PERSIST', record) end
elseif ARGV[1] == 'table' then redis.call('HDEL', record, ARGV[2])
else redis.call('DEL', record) end
for _, command in ipairs(commands) do redis.call(command[1], KEYS[command[2]], unpack(command, 3)) end
return 'done'
`);

/** Key: a sorted set. Arguments: member, the highest score with which it may go. */
export const dropUpTo = createScript(`
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1`);
