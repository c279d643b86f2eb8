-- Writes records as they are into a store that is closed for them, each unless its name has one, and tells of each: 1
-- written, 0 remembered no longer, or what is kept under its name.
-- KEYS: floor, names, held, due; then of each: record, outcome
-- ARGV: of each: the record, whether there is an outcome, the outcome, name; then what comes back
demand_arriving(redis.call('GET', KEYS[1]))
local answers = {}
for nr = 1, (#ARGV - 1) / 4 do
  local record, outcome = KEYS[3 + 2 * nr], KEYS[4 + 2 * nr]
  local value, has_outcome, bytes, member = unpack(ARGV, 4 * nr - 3, 4 * nr)
  local kept = redis.call('GET', record)
  local state = string.sub(value, 2, 2)
  if state ~= 'r' and state ~= 'u' and u64(value, 75) <= now then
    answers[nr] = 0
  elseif kept then
    answers[nr] = { kept, redis.call('GET', outcome) }
  else
    local at = { record, outcome, KEYS[1], KEYS[2], KEYS[3], KEYS[4] }
    write(at, member, value, has_outcome == '1' and bytes, redis.call('GET', KEYS[1]))
    answers[nr] = 1
  end
end
return { told, answers }
