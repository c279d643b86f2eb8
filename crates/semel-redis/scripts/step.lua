-- What every script begins with. The quick ones begin with nothing else: each run makes their functions anew.
--
-- Numbers of Lua are exact below 2^53, which in microseconds is the year 2255; what is past it stands for "never" and
-- is kept as the largest instant.
local EXACT = 9007199254740992
local NEVER = '\127\255\255\255\255\255\255\255'
-- How long a record that is over stays, in milliseconds, before the server may drop it: what is over is judged by
-- the store's time at every read, and a repeat that comes late is still recognised.
local GRACE = 60000

-- The time when the script decides, in microseconds.
local function clock()
--[[clock]]
end

local now = clock()

-- Ends the script before its first write, where the store is closed: the mark of that stands behind the floor's fence.
local function refuse_if_closed(floor)
  if not floor or #floor == 8 then return end
  if #floor < 8 then
    error({ err = 'WRONGTYPE the floor of the fences is cut' })
  end
  if string.sub(floor, 9) == 'arriving' then
    error({ err = 'ARRIVING the store is closed for what is brought into it' })
  end
  error({ err = 'AWAY the store is closed' })
end
