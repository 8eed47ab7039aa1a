-- A page of ids of pending or claimed jobs, or of jobs that have ended; or of the results of a group.
--
-- ARGV from `at` on: the set (`PageSet` in `protocol.rs`) and the limit, 256 at most; then for
--   'pending': the earliest and the latest due time, the id that the page follows or '', the kinds
--   'claimed': how many ids to skip
--   'ended': how they have ended; their kind, or '' for any; the place that the page follows (time of the end in
--     eight bytes, and id), or ''
--   'results': the most bytes of a page; the group; the id that the page follows, or ''
-- Returns { 'ok', microseconds, pairs }:
--   'pending': ids and due times, in the order of both; the limit holds for each kind and band
--   'claimed': ids and fences, in the order in which the leases end
--   'results': ids, and what `groups.lua` keeps of each member behind its id, in the order of the ids; false if the group
--     keeps no results
--   'ended': ids and times of the end. The first `limit` jobs in the order of the end are among them, and the caller sorts
--
-- Needs: records, kept_lists.

local set, limit = args(2)
limit = tonumber(limit)
local found = {}

-- Compares ids byte by byte, since Lua compares strings by the server's locale.
local function less_or_equal(a, b)
  for n = 1, 16 do
    local left, right = string.byte(a, n) or -1, string.byte(b, n) or -1
    if left ~= right then
      return left < right
    end
  end
  return true
end

-- Returns the rank of the first member that follows this due time and `after`: how many members are due earlier,
-- or at this time with an id up to `after`.
local function rank_after(key, time, after)
  -- A time before all others is someone's mistake, and counts as the first one.
  local low = time == '0' and 0 or redis.call('ZCOUNT', key, '-inf', '(' .. time)
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

-- Finds jobs that ended so, of these kinds. It begins with the latest that precede `after`, and stops when it has found
-- `limit` jobs. Then it has all jobs of the last millisecond that share lists, since a list is not in the order of the ids.
local function add_ended(ending, its_kinds, after)
  local time_after = after ~= '' and string.sub(after, 1, 8)
  local at_once = math.max(math.floor(16 / #its_kinds), 1)
  -- For each kind and letter: some of its lists, the latest first; which of them is next; and the range of the lists to
  -- read then.
  local each = {}
  local function read_on(its)
    if its.next > #its.lists and its.final then
      its.lists = redis.call('ZREVRANGEBYLEX', over, its.final, its.first, 'LIMIT', 0, at_once)
      its.next = 1
      its.final = #its.lists == at_once and '(' .. its.lists[at_once]
    end
    its.list = its.lists[its.next]
    -- A text that is no list has no jobs. It comes first, and adds nothing.
    its.ended_at = its.list and (kept_lists.read(its.list) or math.huge)
    its.next = its.next + 1
  end
  local function begin(how, kind)
    local first, final = kept_lists.range(how, kind)
    if time_after then
      -- The shared lists of that millisecond too: `after` may be in the midst of them.
      final = how == AS_COMPLETED and first .. time_after .. string.rep('\255', 17) or '(' .. string.sub(first, 2) .. after
    end
    local its = { lists = {}, next = 1, first = first, final = final, left = how == AS_COMPLETED and math.huge or limit }
    read_on(its)
    each[#each + 1] = its.list and its
  end
  for _, kind in ipairs(its_kinds) do
    begin(ending, kind)
    if ending == AS_COMPLETED then
      begin(kept_lists.WAITED_FOR, kind)
    end
  end
  local number, time_before = 0, nil
  while true do
    local latest
    for _, its in ipairs(each) do
      if its.list and its.left > 0 and (not latest or its.ended_at > latest.ended_at) then
        latest = its
      end
    end
    if not latest or number >= limit and latest.ended_at ~= time_before then
      return
    end
    local is_time_after = string.sub(latest.list, #latest.first, #latest.first + 7) == time_after
    for _, id in ipairs(kept_lists.ids(latest.list)) do
      if not is_time_after or not less_or_equal(string.sub(after, 9), id) then
        number, latest.left = number + 1, latest.left - 1
        found[#found + 1] = id
        found[#found + 1] = string.format('%.0f', latest.ended_at)
      end
    end
    time_before = latest.ended_at
    read_on(latest)
  end
end

if set == 'pending' then
  local from, to, after = args(3)
  from, to = tonumber(from), tonumber(to)
  local function add(key, band)
    local rank = rank_after(key, string.format('%.0f', band + from), after)
    local many, is_end = 0, false
    repeat
      local page = redis.call('ZRANGE', key, rank, rank + limit - 1, 'WITHSCORES')
      rank, is_end = rank + limit, #page < 2 * limit
      for member = 1, #page, 2 do
        local time = tonumber(page[member + 1]) - band
        if time > to or time >= BAND or many == limit then
          is_end = true
          break
        end
        -- What is no id is passed over.
        if #page[member] == 16 then
          many = many + 1
          found[#found + 1] = page[member]
          found[#found + 1] = string.format('%.0f', math.max(math.floor(time), 0))
        end
      end
    until is_end or many == limit
  end
  for n = at, #ARGV do
    local key = due[ARGV[n]]
    if key then
      add(key, 0)
      if redis.call('ZCOUNT', key, BAND, '+inf') > 0 then
        for band = 1, COMING / BAND do
          add(key, band * BAND)
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
elseif set == 'results' then
  local most, of, after = args(3)
  local from, bytes = after == '' and '[r' .. of or '(r' .. of .. after .. '\255', 0
  most = tonumber(most)
  local marks = string.byte(redis.call('HGET', groups, of) or '') or 0
  if not has(marks, KEEPS_RESULTS) then
    return { 'ok', micros, false }
  end
  while from and bytes < most and #found < 2 * limit do
    local rows = redis.call('ZRANGEBYLEX', members, from, '(r' .. of .. string.rep('\255', 17), 'LIMIT', '0', '16')
    for _, row in ipairs(rows) do
      if bytes < most and #found < 2 * limit then
        found[#found + 1], found[#found + 2] = string.sub(row, 18, 33), string.sub(row, 34)
        bytes = bytes + #row - 33
      end
    end
    from = rows[16] and '(' .. rows[16]
  end
else
  local ending, kind, after = args(3)
  local its_kinds = { due[kind] and kind }
  if kind == '' then
    for its in pairs(due) do
      its_kinds[#its_kinds + 1] = its
    end
  end
  add_ended(tonumber(ending), its_kinds, after)
end
return { 'ok', micros, found }
