-- Stores the end of a run that is still its permit's; anything else is told, for the caller to decide.
-- KEYS: record, outcome, floor, names, held, due, mark
-- ARGV: token, fence, state, how long it is replayed and remembered, what follows the claimer in the record,
--       whether there is an outcome, the outcome, name, whether answers are waited for
local value, outcome = seen()
local is_held = value and string.byte(value, 1) == 1 and string.sub(value, 3, 26) == ARGV[1] .. ARGV[2]
if is_held then
  local state = string.sub(value, 2, 2)
  local is_resolved = math.floor(string.byte(value, 91) / 2) % 2 == 1
  is_held = (state == 'r' or state == 'u') and not is_resolved
end
if not is_held then
  touch(KEYS[7], ARGV[10])
  return { told, 0, value, outcome, false }
end
local long = struct.unpack('>I2', value, 148)
local rest = long == 65535 and 150 or 150 + long
local next = string.sub(value, 1, 1) .. ARGV[3] .. string.sub(value, 3, 58)
  .. be8(now) .. after(ARGV[4]) .. after(ARGV[5]) .. string.sub(value, 83, rest - 1) .. ARGV[6]
put(ARGV[9], next, ARGV[7] == '1' and ARGV[8])
return { told, 1, false, false, false }
