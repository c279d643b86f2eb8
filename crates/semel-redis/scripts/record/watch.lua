-- Reads a record and its outcome, and asks whoever ends its run to say so.
-- KEYS: record, outcome, watched
-- ARGV: where it is said, for how long somebody wants to hear it, in milliseconds
local read = redis.call('MGET', KEYS[1], KEYS[2])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return { now, read[1], read[2] }
