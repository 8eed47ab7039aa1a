-- Lists of kept jobs. A busy kind keeps many jobs that complete in one call, so they share one member of `over` and one date.
--
-- A list has jobs of one kind that ended in one millisecond and go at one date: those without extra, key and errors, whose
-- ids the crate has made. Other kept jobs have members and a date of their own (`places` in `records.lua`). A list is its
-- own name, in `over` and in `ended`: an `l`; the length and the name of the kind; the time of the end, in eight bytes; how
-- many bytes its jobs count, in four; their ids. The counter `listed:KIND` is the number of the ids in the lists of a kind.

-- A table, since a script has no more than 200 local variables. `MOST`: how many jobs a list has at most.
local kept_lists = { MOST = 40 }

-- What the lists of a kind begin with.
function kept_lists.head(kind)
  return 'l' .. string.char(#kind) .. kind
end

-- The first and the last member of `over` that may be a list of this kind.
function kept_lists.range(kind)
  local head = kept_lists.head(kind)
  return '[' .. head, '[' .. head .. string.rep('\255', 9)
end

-- When the jobs of a list ended, how many bytes they count, the place of the first id, and the number of the ids. A member
-- that a user wrote and that is no list has no ids.
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

-- Puts a shorter list in the place of a list, or removes it if no id is left. `left`: the ids that stay. `bytes`: what they
-- count.
function kept_lists.shorten(list, first, left, bytes)
  local till = redis.call('ZSCORE', ended, list)
  redis.call('ZREM', over, list)
  redis.call('ZREM', ended, list)
  if #left > 0 then
    local shorter = string.sub(list, 1, first - 5) .. struct.pack('>I4', math.max(bytes, 0)) .. table.concat(left)
    redis.call('ZADD', over, '0', shorter)
    -- Without its date a user has removed it: then the list goes with the next purge.
    redis.call('ZADD', ended, till or '0', shorter)
  end
end

-- Takes a job out of a list, if its id is there. `bytes`: what it counts. Returns whether it was there, and how many bytes are
-- counted no more: more than its own if the list is empty then, and records that it named were removed by hand.
function kept_lists.take(list, id, bytes)
  if not string.find(list, id, 1, true) then
    return false
  end
  local _, list_bytes, first = kept_lists.read(list)
  local ids = kept_lists.ids(list, first)
  for n, its in ipairs(ids) do
    if its == id then
      table.remove(ids, n)
      kept_lists.shorten(list, first, ids, list_bytes - bytes)
      return true, #ids > 0 and bytes or list_bytes
    end
  end
  return false
end

-- The lists that may have a job: those of its kind and of the millisecond in which it ended.
function kept_lists.at(kind, ended_at)
  local head = kept_lists.head(kind) .. struct.pack('>I8', ended_at)
  return redis.call('ZRANGEBYLEX', over, '[' .. head, '[' .. head .. string.rep('\255', 5))
end

-- Counts jobs that have come into lists of a kind, or have left them.
function kept_lists.count(kind, by)
  redis.call('HINCRBY', counters, 'listed:' .. kind, by)
end
