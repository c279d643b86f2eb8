-- Writes a row of the audit, behind the server's time, which says in what order rows came.
-- KEYS: audit
-- ARGV: the row, how many are kept
local time = redis.call('TIME')
redis.call('LPUSH', KEYS[1], be8(tonumber(time[1]) * 1000000 + tonumber(time[2])) .. ARGV[1])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[2]) - 1)
return { told, 1 }
