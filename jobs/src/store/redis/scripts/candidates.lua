-- The candidates of a claim: the due jobs that it may take, in their order.
-- For each kind there is one list of the jobs that were never interrupted, and one list for each number
-- of interruptions. Each is in the order of due time. A list of suspects reads one more than may be claimed,
-- which shows that a suspect waits.
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
  -- No claim was counted until now: CHANGED_SCOPES in `places.lua`.
  redis.call('HSET', lanes, '\0h', '0')
  redis.call('HSET', flow, '', '1')
  return { 'lanes', micros, 1 }
end

-- How many records of a list are read at once. They may be large, and may not be claimed.
local AHEAD = 16

local function record_of(list, cursor)
  if not list.read_to or cursor > list.read_to then
    list.read_from, list.read_to = cursor, math.min(cursor + AHEAD - 1, #list.ids)
    list.records = redis.call('HMGET', jobs, unpack(list.ids, cursor, list.read_to))
  end
  return list.records[cursor - list.read_from + 1]
end

-- Sets the rank of the job at the cursor, or nil if there is none.
local function set_rank(list)
  local score = list.scores[list.cursor]
  if score ~= list.ranked then
    list.ranked, list.rank = score, score and tonumber(score) - list.before_rank
  end
end

-- The length of the key in the record of a pending job of this kind. Nil if the record cannot be read.
local function key_bytes_of(record, kind)
  if #record < HEAD_BYTES then
    return nil
  end
  local flags = string.byte(record, 1)
  if flags > CALLERS_ID and (has(flags, ENDED) or flags > CALLERS_ID + EXTRA + PARTITION + 16) then
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
