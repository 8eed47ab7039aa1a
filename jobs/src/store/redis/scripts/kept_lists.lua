-- Lists of kept jobs. A busy kind keeps many jobs that complete in one call: they share one member of `over` and one date.
--
-- A list has jobs of one kind that ended in one millisecond and go at one date. They have no extra, no key and no errors,
-- and the crate has made their ids. Every other kept job has members and a date of its own (`places` in `records.lua`).
-- The same text stands in `over` and in `ended`: an `l`; the length and the name of the kind; the time of the end, in
-- eight bytes; how many bytes the jobs count, in four; their ids. The counter `listed:KIND` is the number of the ids in the
-- lists of a kind.
--
-- A kept job on whose end a caller waits has one more member of `over` for a minute (`waited_place`). The counter
-- `waited_bytes:KIND` is there as long as a kind has such members. They count against no bound.

-- A table, since a script has no more than 200 local variables. `MOST`: how many jobs a list has at most.
local kept_lists = { MOST = 40 }

-- The beginning of each list of a kind.
function kept_lists.head(kind)
  return 'l' .. string.char(#kind) .. kind
end

-- The first and the last member of `over` that may be a list of this kind.
function kept_lists.range(kind)
  local head = kept_lists.head(kind)
  return '[' .. head, '[' .. head .. string.rep('\255', 9)
end

-- When the jobs of a list ended, how many bytes they count, the place of the first id, and the number of the ids. The number
-- is 0 if the text is no list, because a user wrote it.
function kept_lists.read(list)
  local times_at = (string.byte(list, 2) or 0) + 3
  local first = times_at + 12
  local number = (#list - first + 1) / 16
  if number < 1 or number ~= math.floor(number) then
    return 0, 0, #list + 1, 0
  end
  local ended_at, bytes = struct.unpack('>I8I4', string.sub(list, times_at, times_at + 11))
  return ended_at, bytes, first, number
end

-- The ids of a list. `first`: the place of the first.
function kept_lists.ids(list, first)
  local ids = {}
  for from = first, #list, 16 do
    ids[#ids + 1] = string.sub(list, from, from + 15)
  end
  return ids
end

-- Changes two counters of a kind: by how many jobs its lists have more or fewer, and by how many bytes its kept jobs have.
function kept_lists.count(kind, jobs_more, bytes_more)
  values.add(counters, 'listed:' .. kind, jobs_more, function()
    local first, final = kept_lists.range(kind)
    local listed = 0
    repeat
      local lists = redis.call('ZRANGEBYLEX', over, first, final, 'LIMIT', 0, AT_ONCE)
      for _, list in ipairs(lists) do
        listed = listed + select(4, kept_lists.read(list))
      end
      first = '(' .. (lists[#lists] or '')
    until #lists < AT_ONCE
    return listed
  end)
  values.add(counters, 'kept_bytes:' .. kind, bytes_more)
end

-- Puts a shorter list in the place of a list, or removes it if no id is left. `left`: the ids that stay. `bytes`: what they
-- count.
function kept_lists.shorten(list, first, left, bytes)
  local till = redis.call('ZSCORE', ended, list)
  redis.call('ZREM', over, list)
  redis.call('ZREM', ended, list)
  if #left > 0 then
    local shorter = string.sub(list, 1, first - 5) .. struct.pack('>I4', math.max(bytes, 0)) .. table.concat(left)
    redis.call('ZADD', over, '0', shorter)
    -- If a user has removed the date, the list goes with the next purge.
    redis.call('ZADD', ended, till or '0', shorter)
  end
end

-- The first of these lists that has this id.
function kept_lists.find(lists, id)
  for _, list in ipairs(lists) do
    if string.find(list, id, 1, true) then
      local _, _, first = kept_lists.read(list)
      for _, its in ipairs(kept_lists.ids(list, first)) do
        if its == id then
          return list
        end
      end
    end
  end
end

-- The list of a completed job. Nil if it is in none.
function kept_lists.list_of(id, job)
  local head = kept_lists.head(job.kind) .. struct.pack('>I8', job.ended_at)
  local of_this_time = redis.call('ZRANGEBYLEX', over, '[' .. head, '[' .. head .. string.rep('\255', 5))
  return kept_lists.find(of_this_time, id)
end

-- Takes a job out of its list, and counts it no more. `bytes`: what it counts; 0 if its record was removed by hand. Then its
-- bytes are counted until the list has no id.
function kept_lists.take(kind, list, id, bytes)
  local _, list_bytes, first = kept_lists.read(list)
  local left = {}
  for _, its in ipairs(kept_lists.ids(list, first)) do
    if its ~= id then
      left[#left + 1] = its
    end
  end
  kept_lists.shorten(list, first, left, list_bytes - bytes)
  -- Not `-bytes`: the server takes `-0` for no integer.
  kept_lists.count(kind, -1, 0 - (#left > 0 and bytes or list_bytes))
end

-- Removes all jobs of a list. If a user wrote the text, and it is no list, removes only its date.
function kept_lists.drop(list)
  local _, bytes, first, number = kept_lists.read(list)
  local kind = string.sub(list, 3, first - 13)
  if number == 0 or string.sub(list, 1, 1) ~= 'l' or not due[kind] then
    values.set_aside('ZREM', ended, list)
    return
  end
  call_all('HDEL', jobs, kept_lists.ids(list, first))
  kept_lists.shorten(list, first, {}, 0)
  kept_lists.count(kind, -number, 0 - bytes)
end

-- The member of `over` for a kept job of a kind on whose end a caller waits: `rest` is the time, the id, and in four bytes
-- how many bytes the job counts. Without `rest`: the beginning of all these members.
function kept_lists.waited_place(kind, rest)
  return 'w' .. string.char(#kind) .. kind .. (rest or '')
end

-- How many jobs of a kind have a caller that waits for their end, and how many bytes they count, which are `bytes` with
-- those whose minute has passed: their members go.
function kept_lists.waited_for(kind, bytes)
  local first = kept_lists.waited_place(kind)
  local past = '(' .. first .. struct.pack('>I8', math.max(now - WANTED_KEPT_MS, 0))
  local places = redis.call('ZRANGEBYLEX', over, '[' .. first, past, 'LIMIT', 0, 10 * AT_ONCE)
  local gone = 0
  for _, place in ipairs(places) do
    gone = gone + struct.unpack('>I4', string.sub('\0\0\0\0' .. place, -4))
  end
  call_all('ZREM', over, places)
  local many = redis.call('ZLEXCOUNT', over, '[' .. first, '[' .. first .. string.rep('\255', 29))
  if many == 0 then
    redis.call('HDEL', counters, 'waited_bytes:' .. kind)
    return 0, 0
  elseif gone > 0 then
    values.add(counters, 'waited_bytes:' .. kind, -gone)
  end
  return many, math.max(bytes - gone, 0)
end
