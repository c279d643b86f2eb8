-- Does what the sweep decided by a record, if it is still there: deletes it, drops its outcome, or notes when there
-- is something to do next. A record that the server has dropped already leaves its name behind.
-- KEYS: record, outcome, floor, names, held, due
-- ARGV: the record that was seen or nothing, what is done, name, when it is next due
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return { told, 0 } end
if ARGV[2] == 'delete' then
  if value then raise(KEYS[3], redis.call('GET', KEYS[3]), string.sub(value, 19, 26)) end
  redis.call('DEL', KEYS[1], KEYS[2])
  for at = 4, 6 do redis.call('ZREM', KEYS[at], ARGV[3]) end
  return { told, 1 }
end
if ARGV[2] == 'forget' then redis.call('DEL', KEYS[2]) end
redis.call('ZADD', KEYS[6], ARGV[4], ARGV[3])
return { told, 1 }
