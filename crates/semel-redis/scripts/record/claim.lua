-- Claims an intent of which nothing is stored; anything else is told, for the caller to decide.
-- KEYS: record, outcome, floor, names, held, mark
-- ARGV: the record without its times and fence, not after, name, whether answers are waited for
local read = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local value, floor = read[1], read[3]
if value or now > tonumber(ARGV[2]) then
  if ARGV[4] == '1' then redis.call('SET', KEYS[6], '') end
  return { now, 0, value, value and read[2], value and floor }
end
refuse_if_closed(floor)
local at = struct.pack('>I8', now)
local fence = struct.pack('>I8', math.max(now, floor and struct.unpack('>I8', floor) + 1 or 1))
local blank = ARGV[1]
value = string.sub(blank, 1, 18) .. fence .. at .. string.sub(blank, 35, 42) .. at .. at .. string.sub(blank, 59)
-- A key that is no string reads as if nothing were there.
if not redis.call('SET', KEYS[1], value, 'NX') then
  return redis.error_reply('WRONGTYPE the key holds no record')
end
redis.call('ZADD', KEYS[4], 0, ARGV[3])
redis.call('ZADD', KEYS[5], 0, ARGV[3])
return { now, 1, fence, false, false }
