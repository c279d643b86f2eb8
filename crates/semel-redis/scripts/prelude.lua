-- What the scripts have in common that do seldom things, or one thing at a time.
--
-- A record is one string; src/row.rs documents its bytes.
local told = string.format('%.0f', now)

local function u64(bytes, at)
  return (struct.unpack('>I8', bytes, at))
end

local function be8(number)
  return struct.pack('>I8', number)
end

-- How long until an instant, as the server wants it for a key that expires; nil for never.
local function left(instant)
  if instant >= EXACT then return nil end
  return string.format('%.0f', math.max(0, math.ceil((instant - now) / 1000)) + GRACE)
end

local function set(key, value, expires)
  if expires then
    redis.call('SET', key, value, 'PX', expires)
  else
    redis.call('SET', key, value)
  end
end

-- No later fence falls below the fence of a record that may be dropped. Behind the number stands a mark while the
-- store is closed.
local function raise(floor, kept, fence)
  kept = kept or ''
  if #kept < 8 or u64(kept, 1) < u64(fence, 1) then
    redis.call('SET', floor, string.sub(fence, 1, 8) .. string.sub(kept, 9))
  end
end

local function mark(floor)
  return floor and string.sub(floor, 9) or ''
end

-- Ends the script before its first write, where the store is not closed for what is brought into it.
local function demand_arriving(floor)
  if mark(floor) ~= 'arriving' then error({ err = 'CLOSEDFIRST the store is not closed for this' }) end
end

-- Writes a record and whatever finds it. `at` names the record, its outcome, the floor, and the sets of all names, of
-- those that are held, and of those that are due.
local function write(at, member, value, outcome, floor)
  local state = string.sub(value, 2, 2)
  redis.call('ZADD', at[4], 0, member)
  if state == 'r' or state == 'u' then
    redis.call('SET', at[1], value)
    redis.call('DEL', at[2])
    redis.call('ZADD', at[5], 0, member)
    redis.call('ZREM', at[6], member)
    return
  end
  local due = u64(value, 75)
  set(at[1], value, left(due))
  if outcome then
    local replayed = u64(value, 67)
    set(at[2], outcome, left(replayed))
    due = math.min(due, replayed)
  else
    redis.call('DEL', at[2])
  end
  raise(at[3], floor, string.sub(value, 19, 26))
  redis.call('ZREM', at[5], member)
  redis.call('ZADD', at[6], due >= EXACT and '+inf' or string.format('%.0f', due), member)
end

-- Writes a record whose KEYS are named in that order, unless the store is closed. `floor` is what stands under the
-- floor, where that is known.
local function put(member, value, outcome, floor)
  if floor == nil then floor = redis.call('GET', KEYS[3]) end
  refuse_if_closed(floor)
  write(KEYS, member, value, outcome, floor)
end

-- Writes a row of the audit, behind the server's time, which says in what order rows came; only so many are kept.
local function note(audit, row, kept)
  local time = redis.call('TIME')
  redis.call('LPUSH', audit, be8(tonumber(time[1]) * 1000000 + tonumber(time[2])) .. row)
  redis.call('LTRIM', audit, 0, tonumber(kept) - 1)
end
