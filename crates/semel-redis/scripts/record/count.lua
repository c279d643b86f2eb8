-- Reads the beginnings of some records, in the order of their names, and whether each has an outcome.
-- KEYS: the set of names, what the names of records and of outcomes begin with
-- ARGV: the first name, how many at most
local names = redis.call('ZRANGE', KEYS[1], ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[2])
local rows = {}
for at, member in ipairs(names) do
  local value = redis.call('GETRANGE', KEYS[2] .. member, 0, 90)
  rows[at] = { value, redis.call('EXISTS', KEYS[3] .. member) }
end
return { told, names[#names] or false, rows }
