-- A page of ids, 256 at most of each kind and number of interruptions.
--
-- ARGV from `at` on: the set (`JobSet` in `protocol.rs`) and the most ids; then
--   'pending': the earliest and the latest due time, the id that the page follows or '', the kinds
--   'claimed': how many to pass over
--   'dead': the id that the page follows, or ''
-- Returns { 'ok', microseconds, pairs }: id and due time of pending jobs, by both; id and fence of claimed
-- ones, by the end of their lease; id and '0' of dead ones, by id.

local set, limit = args(2)
limit = tonumber(limit)
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

-- How many members of the set come before a due time, or have it and an id up to `after`.
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

if set == 'pending' then
  local from, to, after = args(3)
  from, to = tonumber(from), tonumber(to)
  local function add(key, band)
    local rank = rank_after(key, string.format('%.0f', band + from), after)
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
  for n = at, #ARGV do
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
elseif set == 'claimed' then
  local from = tonumber(args(1))
  for _, id in ipairs(redis.call('ZRANGE', run, from, from + limit - 1)) do
    found[#found + 1] = id
    found[#found + 1] = redis.call('HGET', fences, id)
  end
else
  local after = args(1)
  local low = after == '' and '-' or '(' .. after
  for _, id in ipairs(redis.call('ZRANGEBYLEX', dead, low, '+', 'LIMIT', 0, limit)) do
    found[#found + 1] = id
    found[#found + 1] = '0'
  end
end
return { 'ok', micros, found }
