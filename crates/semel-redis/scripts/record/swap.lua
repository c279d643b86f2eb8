-- Writes a record in place of the one that was decided by, if it is still there, the clock has not gone back since,
-- and it is not too late.
-- KEYS: record, outcome, floor, names, held, due, mark, audit, watched
-- ARGV: the record that was seen, when it was seen, not after, the next record, whether there is an outcome, the
--       outcome, name, the row of the audit or nothing, how many rows are kept
local read = redis.call('MGET', KEYS[1], KEYS[9])
local value, watched = read[1], read[2]
if value ~= ARGV[1] or now < tonumber(ARGV[2]) or now > tonumber(ARGV[3]) then
  return { told, 0 }
end
put(ARGV[7], ARGV[4], ARGV[5] == '1' and ARGV[6])
if ARGV[8] ~= '' then note(KEYS[8], ARGV[8], ARGV[9]) end
-- A hint that may not be given is none: those who wait poll.
if watched and string.sub(ARGV[4], 2, 2) ~= 'r' then redis.pcall('PUBLISH', watched, ARGV[7]) end
return { told, 1 }
