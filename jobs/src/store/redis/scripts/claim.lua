-- Claims the earliest jobs that are due, of the kinds that are handled: at most so many, and at most
-- so many bytes. Answers when the next one is due, whether a kind waits for a suspect, and of each
-- claimed job its id, its fence and its record.
--
-- A claim that is sent again, because its answer was lost, answers what it claimed.

local number, limit, lease = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
local suspects, repeat_offender = tonumber(ARGV[at + 3]), ARGV[at + 4] == '1'
local nonce, most_bytes = ARGV[at + 5], tonumber(ARGV[at + 6])
at = at + 7
local most_suspects = suspects
local reply = {}
local blocked = {}
local waits = 0

local given = 0

local function give(id, fence, record)
  reply[given + 1], reply[given + 2], reply[given + 3] = id, fence, record
  given = given + 3
end

-- When the next job is due that this caller could claim, or -1.
local function next_due()
  local earliest = math.huge
  for n = at, #ARGV do
    if not blocked[ARGV[n]] then
      local head = redis.call('ZRANGE', due[ARGV[n]], 0, 0, 'WITHSCORES')
      earliest = math.min(earliest, tonumber(head[2]) or math.huge)
    end
  end
  return earliest < math.huge and earliest or -1
end

local last = redis.call('HGET', sent, 'claim')
if last and string.sub(last, 1, #number + 1) == number .. ':' then
  local from = #number + 2
  waits = tonumber(string.sub(last, from, from))
  from = from + 1
  while from < #last do
    local id = string.sub(last, from, from + 15)
    local fence = redis.call('HGET', fences, id)
    if fence and string.sub(fence, 1, 8) == nonce then
      redis.call('ZADD', run, now + lease, id)
      give(id, fence, redis.call('HGET', jobs, id))
    end
    from = from + 16
  end
  return { 'ok', micros, next_due(), waits, reply }
end

-- The candidates of each kind, by deadline, and the records of the first of them.
local lists, cursors, records = {}, {}, {}
for n = at, #ARGV do
  local kind = ARGV[n]
  lists[kind] = redis.call('ZRANGEBYSCORE', due[kind], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  cursors[kind] = 1
  records[kind] = {}
end

-- Large records are not read for nothing.
local AHEAD = 16

local function record_of(kind, cursor)
  local known, list = records[kind], lists[kind]
  if not known[cursor] then
    local ids = {}
    for n = cursor, math.min(cursor + 2 * AHEAD, #list) - 1, 2 do
      ids[#ids + 1] = list[n]
    end
    for n, record in ipairs(get_all(jobs, ids)) do
      known[cursor + 2 * n - 2] = record
    end
  end
  return known[cursor]
end

local function earliest_kind()
  local best, time = nil, math.huge
  for n = at, #ARGV do
    local kind = ARGV[n]
    local score = tonumber(lists[kind][cursors[kind] + 1])
    if score and not blocked[kind] and score < time then
      best, time = kind, score
    end
  end
  return best, time
end

-- Whether a job may be claimed that was interrupted this often.
local function may_run(interruptions)
  if interruptions == 0 then
    return true
  end
  if interruptions == 1 and suspects > 0 then
    suspects, repeat_offender = suspects - 1, false
    return true
  end
  if interruptions > 1 and repeat_offender and suspects == most_suspects then
    suspects, repeat_offender = 0, false
    return true
  end
  return false
end

local ids, taken_of, deadlines, bytes = {}, {}, {}, 0
local taken = {}
while #ids < limit and bytes < most_bytes do
  local kind, time = earliest_kind()
  if not kind then
    break
  end
  local cursor = cursors[kind]
  local record = record_of(kind, cursor)
  local interruptions = struct.unpack('>I4', record, 6)
  if may_run(interruptions) then
    cursors[kind] = cursor + 2
    bytes = bytes + #record
    local n = #ids + 1
    ids[n], deadlines[n], taken[n] = lists[kind][cursor], time, record
    local its = taken_of[kind] or {}
    taken_of[kind] = its
    its[#its + 1] = ids[n]
  else
    blocked[kind] = true
    waits = 1
  end
end

if #ids > 0 then
  -- The first write needs no memory, so that a full server still runs what it has.
  for kind, its in pairs(taken_of) do
    call_all('ZREM', due[kind], its)
  end
  local first = redis.call('HINCRBY', meta, 'claims', #ids) - #ids
  local tokens, ends = {}, {}
  local lease_end = string.format('%.0f', now + lease)
  for n, id in ipairs(ids) do
    local record = taken[n]
    local kind_bytes, key_bytes = string.byte(record, 14, 15)
    local from = HEAD_BYTES + kind_bytes
    local has_key = key_bytes > 0
      and redis.call('HGET', keys, string.sub(record, from + 1, from + key_bytes)) == id
    local fence = write_fence(first + n, nonce, deadlines[n], has_key, record, kind_bytes, key_bytes)
    tokens[2 * n - 1], tokens[2 * n] = id, fence
    ends[2 * n - 1], ends[2 * n] = lease_end, id
    give(id, fence, record)
  end
  call_all('HSET', fences, tokens)
  call_all('ZADD', run, ends)
  redis.call('HSET', sent, 'claim', number .. ':' .. waits .. table.concat(ids))
  redis.call('PEXPIRE', sent, 3600000)
end
return { 'ok', micros, next_due(), waits, reply }
