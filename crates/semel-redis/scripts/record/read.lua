-- Reads a record and its outcome, and the time.
-- KEYS: record, outcome, mark
-- ARGV: whether answers are waited for
local read = redis.call('MGET', KEYS[1], KEYS[2])
if ARGV[1] == '1' then redis.call('SET', KEYS[3], '') end
return { now, read[1], read[2] }
