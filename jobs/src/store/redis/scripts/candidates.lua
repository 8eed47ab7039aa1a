-- The candidates of a claim: the due jobs that it may take, in their order; and how it takes them. With lanes,
-- `take_lanes.lua` says which. `write_claim.lua` writes the claim.
-- For each kind there is one list of the jobs that were never interrupted, and one list for each number
-- of interruptions. Each is in the order of due time. A list of suspects reads one more than may be claimed,
-- which shows that a suspect waits.
--
-- Gives: lists, first_list, key_bytes_of, add, fence_number, lease_end, ids, ends, tokens, scopes, taken, bytes, empty,
--   foreign, claimed_in_lanes, drop, fence_of, use_room, take_from.
-- Needs: claim.

if not in_lanes and redis.call('HLEN', flow) > 0 then
  return { 'lanes', micros, 1 }
end
local lists = {}

do
  -- If at least this many jobs have one due time, they are read without their scores.
  local ALIKE = 4

  -- Reads the first due jobs of a band: their ids, and their scores in digits. For a server, a score in digits is more
  -- work than a record. So jobs of one due time, like those of a bulk that is due at once, are read without scores.
  local function read_due(key, band, most)
    local ids, scores, many = {}, {}, 0
    local from, to = band == 0 and '-inf' or string.format('%.0f', band), string.format('%.0f', band + now)
    local function read(to_read)
      return redis.call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', '0', to_read)
    end
    repeat
      local left = most - many
      local found = read(math.min(left, 2))
      local score, is_end = found[2], true
      local alike = found[4] and found[4] == score and math.min(left, redis.call('ZCOUNT', key, score, score)) or 0
      if alike >= ALIKE then
        for n, id in ipairs(redis.call('ZRANGEBYSCORE', key, score, score, 'LIMIT', '0', alike)) do
          ids[many + n], scores[many + n] = id, score
        end
        from, is_end = '(' .. score, alike == left
      else
        if found[4] and left > 2 then
          found = read(left)
        end
        for n = 1, #found / 2 do
          ids[many + n], scores[many + n] = found[n + n - 1], found[n + n]
        end
      end
      many = #ids
    until is_end
    return ids, scores
  end

  local function read_list(kind, interruptions, most)
    local band = interruptions * BAND
    local ids, scores = read_due(due[kind], band, most)
    if #ids > 0 then
      lists[#lists + 1] = {
        kind = kind, interruptions = interruptions, band = band, ids = ids, scores = scores, cursor = 1, claimed = {},
        -- The rank of a job is its score less this.
        before_rank = band + (head_start[kind] or 0),
        -- The beginning of the record of a job of this kind that has no key and was never run.
        fresh = string.rep('\0', 13) .. string.char(#kind, 0, 0, 0) .. kind,
      }
    end
  end

  for n = at, #ARGV do
    local kind = ARGV[n]
    local most = math.min(limit, room[kind], is_blocking[kind] and blocking or limit)
    if not head_start[kind] then
      most = math.min(most, plain)
    end
    -- If the limits let no job of the kind start now, it has no candidate.
    local is_held_back = opens_at and opens_at(kind) > now
    if most > 0 and not is_held_back then
      read_list(kind, 0, most)
      if has_suspects(kind) then
        read_list(kind, 1, math.min(crashed_once, most) + 1)
        for interruptions = 2, MOST_INTERRUPTIONS - 1 do
          read_list(kind, interruptions, 2)
        end
      end
    end
  end
end

if has_partitions and not in_lanes then
  write_on_a_full_server()
  -- No claim was counted until now: CHANGED_SCOPES in `lanes.lua`.
  redis.call('HSET', lanes, '\0h', '0')
  redis.call('HSET', flow, '', '1')
  return { 'lanes', micros, 1 }
end

-- Sets the rank of the job at the cursor, or nil if there is none.
local function set_rank(list)
  local score = list.scores[list.cursor]
  if score ~= list.ranked then
    list.ranked, list.rank = score, score and tonumber(score) - list.before_rank
  end
end

-- The list whose next job comes first. Nil if there is none.
local function first_list()
  local best
  for _, list in ipairs(lists) do
    if not list.is_passed_over then
      set_rank(list)
      best = list.rank and (not best or list.rank < best.rank) and list or best
    end
  end
  return best
end

-- The length of the key in the record of a pending job of this kind. Nil if the record cannot be read.
local function key_bytes_of(record, kind)
  if #record < HEAD_BYTES then
    return nil
  end
  local flags = string.byte(record, 1)
  if flags > CALLERS_ID and (has(flags, ENDED) or flags > CALLERS_ID + EXTRA + PARTITION + GROUP + GIVES_RESULT) then
    return nil
  end
  local kind_bytes, key_bytes, high, low = string.byte(record, 14, 17)
  local needed = HEAD_BYTES + kind_bytes + key_bytes + high * 256 + low
  local is_sound = kind_bytes == #kind
    and #record >= needed
    and (flags <= CALLERS_ID or has_extra(record, needed))
    and string.sub(record, HEAD_BYTES + 1, HEAD_BYTES + kind_bytes) == kind
  return is_sound and key_bytes or nil
end

-- `time`: the due time in digits. `head`: the record to the end of its key. `scope`: that of a counted claim.
local function write_fence(number, time, has_key, head, scope)
  -- A fence has more than 64 bytes, so that the server keeps the fences in a hash table, and not in a list that it searches.
  local LONG_ENOUGH = 32
  local mark = scope and (has_key and 'K' or '+') or has_key and 'k' or '-'
  return nonce .. struct.pack('>I8I8', number, tonumber(time)) .. owner .. mark .. head .. (scope or '')
    .. string.rep('\0', LONG_ENOUGH - #head)
end

local function add(lists_of, kind, id)
  local its = lists_of[kind] or {}
  lists_of[kind] = its
  its[#its + 1] = id
end

-- All jobs of a claim have the same number in their fences. A later claim has a greater one. It is the time of the claim
-- in microseconds, unless the clock has been set back, or reads a later year than the numbers of Lua can count from.
local fence_number
do
  local LATEST_NUMBER_FROM_TIME = 4e15
  fence_number = (values.number(redis.call('HGET', meta, 'claims')) or 0) + 1
  fence_number = math.max(fence_number, math.min(micros, LATEST_NUMBER_FROM_TIME))
end
local lease_end = string.format('%.0f', now + lease)
local sub = string.sub
-- The claimed jobs: their ids; the arguments that add them to `run`, `fences` and `held`; bytes of records.
local ids, ends, tokens, scopes, taken, bytes = {}, {}, {}, {}, 0, 0
-- `empty`: for each kind, ids to remove from its due set: their record was removed by hand or cannot be read. `foreign`: the
-- arguments of `values.set_aside` for values that cannot be read.
local empty, foreign = {}, {}
-- For each kind, the claimed jobs that were in lanes.
local claimed_in_lanes = {}

-- Drops a member of the due set of a kind that leads to no job of that kind. `record`: what it leads to, or false.
local function drop(kind, id, record)
  if #id == 16 then
    add(empty, kind, id)
  else
    -- It was never counted.
    foreign[#foreign + 1] = { 'ZREM', due[kind], id }
  end
  if record then
    foreign[#foreign + 1] = { 'HDEL', jobs, id, record }
  end
end

-- The fence of a job that is claimed, and its due time in digits, with a `k` behind it if the job has its key.
local function fence_of(kind, id, time, record, key_bytes, scope)
  local head = sub(record, 1, HEAD_BYTES + #kind + key_bytes)
  local has_key = key_bytes > 0 and redis.call('HGET', keys, sub(head, HEAD_BYTES + #kind + 1)) == id
  return write_fence(fence_number, time, has_key, head, scope), has_key and time .. 'k' or time
end

-- Notes that the claim has less room.
local function use_room(kind, by)
  room[kind] = room[kind] - by
  blocking = blocking - (is_blocking[kind] and by or 0)
  plain = plain - (head_start[kind] and 0 or by)
end

local take
do
  -- How many records of a list are read at once. They may be large, and may not be claimed.
  local AHEAD = 16

  local function record_of(list, cursor)
    if not list.read_to or cursor > list.read_to then
      list.read_from, list.read_to = cursor, math.min(cursor + AHEAD - 1, #list.ids)
      list.records = redis.call('HMGET', jobs, unpack(list.ids, cursor, list.read_to))
    end
    return list.records[cursor - list.read_from + 1]
  end

  -- The due time in the score of a list, in digits. Someone may have written one that is no time.
  local function time_in(list, score)
    if score ~= list.score then
      local is_time = list.band == 0 and not string.find(score, '%D')
      list.score = score
      list.time = is_time and score or string.format('%.0f', math.max(math.floor(tonumber(score)) - list.band, 0))
    end
    return list.time
  end

  -- Takes the next jobs of a list, this many at most.
  take = function(list, most)
    local kind, interruptions, fresh, claimed, many = list.kind, list.interruptions, list.fresh, list.claimed, #list.claimed
    local scope = plain_scope and plain_scope(kind)
    -- How many of the taken jobs are too old to start.
    list.too_old = 0
    for cursor = list.cursor, list.cursor + most - 1 do
      if bytes >= most_bytes then
        break
      end
      local id, record, time = list.ids[cursor], record_of(list, cursor), time_in(list, list.scores[cursor])
      local is_fresh = record and sub(record, 1, #fresh) == fresh
      local key_bytes = is_fresh and 0 or record and key_bytes_of(record, kind)
      list.cursor = cursor + 1
      if not key_bytes or #id ~= 16 then
        drop(kind, id, record)
      else
        if interruptions > 0 then
          take_note(interruptions)
        end
        bytes = bytes + #record
        local fence
        if is_fresh then
          -- Fresh jobs of one due time have the same fence.
          if list.fence_time ~= time then
            list.fence_time, list.fence = time, write_fence(fence_number, time, false, fresh, scope)
          end
          fence = list.fence
        else
          fence, time = fence_of(kind, id, time, record, key_bytes, scope)
        end
        local pair = taken + taken
        local triple = pair + taken
        reply[triple + 1], reply[triple + 2], reply[triple + 3] = id, time, record
        ends[pair + 1], ends[pair + 2], tokens[pair + 1], tokens[pair + 2] = lease_end, id, id, fence
        if scope then
          list.too_old = list.too_old + (not is_fresh and values.is_too_old(record, kind, key_bytes) and 1 or 0)
          scopes[pair + 1], scopes[pair + 2] = '0', scope .. id
        end
        taken, many = taken + 1, many + 1
        ids[taken], claimed[many] = id, id
      end
    end
  end
end

-- Takes jobs of a list, or passes over the list: one job, or several at once if no other job may come between. `allowed`:
-- returns how many of these jobs the limits allow. Returns how many were taken.
local function take_from(list, is_alone, allowed)
  local kind, interruptions, before, most = list.kind, list.interruptions, taken, 1
  if interruptions > 0 and not admits(interruptions) then
    list.is_passed_over, waits = true, 1
    return 0
  end
  if is_alone and interruptions == 0 then
    most = math.min(limit - taken, room[kind], #list.ids - list.cursor + 1)
    most = math.min(most, is_blocking[kind] and blocking or most, head_start[kind] and most or plain)
    most = allowed and allowed(kind, most) or most
  end
  take(list, most)
  use_room(kind, taken - before)
  return taken - before
end

-- Without lanes, the candidates are taken in their order.
while not in_lanes and taken < limit and bytes < most_bytes do
  local list = first_list()
  if not list then
    break
  elseif has_room(list.kind) then
    take_from(list, #lists == 1)
  else
    list.is_passed_over = true
  end
end
