-- Closes a part of the store, or opens it: by a mark behind the floor of its fences, which every write reads.
-- KEYS: floor
-- ARGV: why, or nothing to open it
local floor = string.sub(redis.call('GET', KEYS[1]) or be8(0), 1, 8) .. ARGV[1]
if floor == be8(0) then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], floor)
end
return { told, 1 }
