-- Stores the end of a run that is still its permit's; anything else is told, for the caller to decide.
-- KEYS: record, outcome, watched, floor, held, due, and the mark where answers are waited for
-- ARGV: token and fence, state, how long it is replayed and remembered, what follows the claimer in the record, the
--       outcome or nothing, name
local call, sub = redis.call, string.sub
local read = call('MGET', KEYS[1], KEYS[4], KEYS[3])
local value, floor = read[1], read[2]
local state = value and sub(value, 2, 2)
local is_held = value and string.byte(value, 1) == 1 and sub(value, 3, 26) == ARGV[1]
  and (state == 'r' or state == 'u')
  -- What was resolved is not the permit's any more.
  and string.byte(value, 91) % 4 < 2
if not is_held then
  if KEYS[7] then call('SET', KEYS[7], '') end
  return { now, value, value and call('GET', KEYS[2]) }
end
refuse_if_closed(floor)

local function instant(span)
  return now + span < EXACT and struct.pack('>I8', now + span) or NEVER
end

-- A whole number is told as one: as the fraction that it may be, the server takes longer to write it.
local function set(key, bytes, span)
  if now + span >= EXACT then return call('SET', key, bytes) end
  return call('SET', key, bytes, 'PX', string.format('%d', math.ceil(span / 1000) + GRACE))
end

local replay, remember = tonumber(ARGV[3]), tonumber(ARGV[4])
local long = struct.unpack('>I2', value, 148)
local rest = long == 65535 and 149 or 149 + long
set(KEYS[1], sub(value, 1, 1) .. ARGV[2] .. sub(value, 3, 58) .. struct.pack('>I8', now) .. instant(replay)
  .. instant(remember) .. sub(value, 83, rest) .. ARGV[5], remember)
local due = now + remember
if ARGV[6] ~= '' then
  set(KEYS[2], ARGV[6], replay)
  due = now + replay
else
  call('DEL', KEYS[2])
end
-- No later fence falls below the fence of a record that may be dropped.
local fence = sub(value, 19, 26)
if not floor or struct.unpack('>I8', floor) < struct.unpack('>I8', fence) then call('SET', KEYS[4], fence) end
call('ZREM', KEYS[5], ARGV[7])
call('ZADD', KEYS[6], due < EXACT and string.format('%d', due) or '+inf', ARGV[7])
-- A hint that may not be given is none: those who wait poll.
if read[3] then redis.pcall('PUBLISH', read[3], ARGV[7]) end
return 1
