-- Renews the lease of a run that is its permit's.
-- KEYS: record, mark, floor
-- ARGV: token and fence, length, whether answers are waited for
local value = redis.call('GETRANGE', KEYS[1], 0, 25)
if string.sub(value, 1, 2) ~= '\1r' or string.sub(value, 3) ~= ARGV[1] then
  if ARGV[3] == '1' then redis.call('SET', KEYS[2], '') end
  return { now, 0 }
end
refuse_if_closed(redis.call('GET', KEYS[3]))
redis.call('SETRANGE', KEYS[1], 26, struct.pack('>I8', now) .. ARGV[2])
return { now, 1 }
