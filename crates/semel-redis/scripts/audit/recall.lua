-- Adds rows of another store to the audit of one that is closed for them, in order, each unless the same row is
-- there. They stand there as of the instant that they tell.
-- KEYS: audit, floor
-- ARGV: how many are kept; then the rows, and what comes back
demand_arriving(redis.call('GET', KEYS[2]))
local there = {}
for _, row in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  there[string.sub(row, 9)] = true
end
local added = 0
for nr = 2, #ARGV - 1 do
  local row = ARGV[nr]
  if not there[row] then
    redis.call('LPUSH', KEYS[1], string.sub(row, 2, 9) .. row)
    added = added + 1
  end
end
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[1]) - 1)
return { told, added }
