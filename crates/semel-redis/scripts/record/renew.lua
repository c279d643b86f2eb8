-- Renews the lease of a run that is its permit's.
-- KEYS: record, floor, and the mark where answers are waited for
-- ARGV: token and fence, length
local value = redis.call('GETRANGE', KEYS[1], 0, 25)
if string.sub(value, 1, 2) ~= '\1r' or string.sub(value, 3) ~= ARGV[1] then
  if KEYS[3] then redis.call('SET', KEYS[3], '') end
  return { now, 0 }
end
refuse_if_closed(redis.call('GET', KEYS[2]))
redis.call('SETRANGE', KEYS[1], 26, struct.pack('>I8', now) .. ARGV[2])
return { now, 1 }
