-- Reads a record and its outcome, and the time.
-- KEYS: record, outcome, and the mark where answers are waited for
local read = redis.call('MGET', KEYS[1], KEYS[2])
if KEYS[3] then redis.call('SET', KEYS[3], '') end
return { now, read[1], read[2] }
