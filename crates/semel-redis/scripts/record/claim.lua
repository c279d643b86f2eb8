-- Claims an intent of which nothing is stored; anything else is told, for the caller to decide.
-- KEYS: record, outcome, floor, names, held, and the mark where answers are waited for
-- ARGV: the record without its times and fence, not after, name
local call, sub = redis.call, string.sub
local floor = call('GET', KEYS[3])
local is_late = now > tonumber(ARGV[2])
local value
if is_late or floor and #floor ~= 8 then
  value = call('GET', KEYS[1])
  if not value and not is_late then refuse_if_closed(floor) end
else
  local at = struct.pack('>I8', now)
  local fence = struct.pack('>I8', math.max(now, floor and struct.unpack('>I8', floor) + 1 or 1))
  local blank = ARGV[1]
  local fresh = sub(blank, 1, 18) .. fence .. at .. sub(blank, 35, 42) .. at .. at .. sub(blank, 59)
  -- One step looks and writes: what was there stays and is told.
  value = call('SET', KEYS[1], fresh, 'NX', 'GET')
  if not value then
    call('ZADD', KEYS[4], 0, ARGV[3])
    call('ZADD', KEYS[5], 0, ARGV[3])
    return at .. fence
  end
end
if KEYS[6] then call('SET', KEYS[6], '') end
return { now, value, value and call('GET', KEYS[2]), value and floor }
