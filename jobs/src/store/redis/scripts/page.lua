-- A page of ids, 256 at most of each kind and number of interruptions: of the jobs that wait, by deadline
-- and id; of the claimed ones, by the end of their lease; of the dead, by id. Answers pairs of id and
-- deadline; for the claimed, id and fence.

local set, limit = ARGV[at], tonumber(ARGV[at + 1])
local found = {}

-- Ids are compared byte by byte: Lua's own order is that of the server's locale.
local function less_or_equal(a, b)
  for n = 1, 16 do
    local left, right = string.byte(a, n), string.byte(b, n)
    if left ~= right then
      return left < right
    end
  end
  return true
end

-- How many members of the set come before a deadline, or have it and an id up to `after`.
local function rank_after(key, time, after)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. time)
  if after == '' then
    return low
  end
  local high = low + redis.call('ZCOUNT', key, time, time)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less_or_equal(redis.call('ZRANGE', key, middle, middle)[1], after) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

if set == 'W' then
  local from, to, after = ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  local function add(key, band)
    local rank = rank_after(key, string.format('%.0f', band + tonumber(from)), after)
    local page = redis.call('ZRANGE', key, rank, rank + limit - 1, 'WITHSCORES')
    for member = 1, #page, 2 do
      local time = tonumber(page[member + 1]) - band
      if time > to or time >= BAND then
        break
      end
      found[#found + 1] = page[member]
      found[#found + 1] = string.format('%.0f', time)
    end
  end
  for n = at + 5, #ARGV do
    local key = due[ARGV[n]]
    if key then
      add(key, 0)
      if redis.call('ZCOUNT', key, BAND, '+inf') > 0 then
        for interruptions = 1, MOST_INTERRUPTIONS - 1 do
          add(key, interruptions * BAND)
        end
      end
    end
  end
elseif set == 'R' then
  local from = tonumber(ARGV[at + 2])
  for _, id in ipairs(redis.call('ZRANGE', run, from, from + limit - 1)) do
    found[#found + 1] = id
    found[#found + 1] = redis.call('HGET', fences, id)
  end
else
  local after = ARGV[at + 2]
  local low = after == '' and '-' or '(' .. after
  for _, id in ipairs(redis.call('ZRANGEBYLEX', dead, low, '+', 'LIMIT', 0, limit)) do
    found[#found + 1] = id
    found[#found + 1] = '0'
  end
end
return { 'ok', micros, found }
