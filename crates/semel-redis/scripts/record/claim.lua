-- Claims an intent of which nothing is stored; anything else is told, for the caller to decide.
-- KEYS: record, outcome, floor, names, held, due, mark
-- ARGV: the record without its times and fence, not after, name, whether answers are waited for
local value, outcome = seen()
if value then
  touch(KEYS[7], ARGV[4])
  return { told, 0, value, outcome, redis.call('GET', KEYS[3]) }
end
if now > tonumber(ARGV[2]) then
  touch(KEYS[7], ARGV[4])
  return { told, 0, false, false, false }
end
local floor = redis.call('GET', KEYS[3])
local fence = math.max(now, floor and u64(floor, 1) + 1 or 1)
local at = be8(now)
local blank = ARGV[1]
value = string.sub(blank, 1, 18) .. be8(fence) .. at .. string.sub(blank, 35, 42) .. at .. at .. string.sub(blank, 59)
put(ARGV[3], value, false, floor)
return { told, 1, value, false, floor }
