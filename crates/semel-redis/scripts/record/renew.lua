-- Renews the lease of a run that is its permit's.
-- KEYS: record, mark, floor
-- ARGV: token, fence, length, whether answers are waited for
local value = redis.call('GET', KEYS[1])
local is_held = value and string.byte(value, 1) == 1 and string.sub(value, 2, 26) == 'r' .. ARGV[1] .. ARGV[2]
if not is_held then
  touch(KEYS[2], ARGV[4])
  return { told, 0 }
end
refuse_if_closed(redis.call('GET', KEYS[3]))
redis.call('SETRANGE', KEYS[1], 26, be8(now) .. ARGV[3])
return { told, 1 }
