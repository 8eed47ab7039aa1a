-- Claims the earliest jobs that are due, of the kinds that are handled: at most so many, and at most
-- so many bytes. Answers when the next one is due, whether a kind waits for a suspect, and of each
-- claimed job its id, its fence and its record.
--
-- A claim that is sent again, because its answer was lost, answers what it claimed. A copy of it
-- that arrives after later claims claims nothing, because nobody waits for it.

local number, limit, lease = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
local suspects, repeat_offender = tonumber(ARGV[at + 3]), ARGV[at + 4] == '1'
local nonce, most_bytes = ARGV[at + 5], tonumber(ARGV[at + 6])
-- Another copy may be under way, so this one leaves its number behind in any case.
local again = ARGV[at + 7] == '1'
at = at + 8
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
local last_number = last and tonumber(string.match(last, '^%d+')) or 0
if last_number > tonumber(number) then
  return { 'ok', micros, -1, 0, reply }
end
if last_number == tonumber(number) then
  local from = #number + 2
  waits = tonumber(string.sub(last, from, from))
  write_on_a_full_server()
  from = from + 1
  while from < #last do
    local id = string.sub(last, from, from + 15)
    local fence = redis.call('HGET', fences, id)
    local record = redis.call('HGET', jobs, id)
    if fence and record and string.sub(fence, 1, 8) == nonce then
      redis.call('ZADD', run, now + lease, id)
      give(id, fence, record)
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

local function add(lists_of, kind, id)
  local its = lists_of[kind] or {}
  lists_of[kind] = its
  its[#its + 1] = id
end

local ids, deadlines, taken, has_key, of_kind, bytes = {}, {}, {}, {}, {}, 0
-- What has no record: somebody has removed it by hand. There is nothing to run.
local empty = {}
while #ids < limit and bytes < most_bytes do
  local kind, time = earliest_kind()
  if not kind then
    break
  end
  local cursor = cursors[kind]
  local id, record = lists[kind][cursor], record_of(kind, cursor)
  if not record then
    cursors[kind] = cursor + 2
    add(empty, kind, id)
  elseif may_run((struct.unpack('>I4', record, 6))) then
    cursors[kind] = cursor + 2
    bytes = bytes + #record
    local n = #ids + 1
    ids[n], deadlines[n], taken[n] = id, time, record
    local kind_bytes, key_bytes = string.byte(record, 14, 15)
    local from = HEAD_BYTES + kind_bytes
    has_key[n] = key_bytes > 0
      and redis.call('HGET', keys, string.sub(record, from + 1, from + key_bytes)) == id
    add(of_kind, kind, id)
  else
    blocked[kind] = true
    waits = 1
  end
end

for kind, its in pairs(empty) do
  write_on_a_full_server()
  call_all('ZREM', due[kind], its)
  count(kind, -#its)
end
settle()

if #ids > 0 then
  -- These have their types, or nothing is claimed.
  redis.call('HLEN', fences)
  redis.call('ZCARD', run)
  redis.call('HLEN', meta)
  -- A full server still runs what it has.
  write_on_a_full_server()
  for kind, its in pairs(of_kind) do
    call_all('ZREM', due[kind], its)
  end
  local first = redis.call('HINCRBY', meta, 'claims', #ids) - #ids
  local tokens, ends = {}, {}
  local lease_end = string.format('%.0f', now + lease)
  for n, id in ipairs(ids) do
    local record = taken[n]
    local fence = write_fence(first + n, nonce, deadlines[n], has_key[n], record)
    tokens[2 * n - 1], tokens[2 * n] = id, fence
    ends[2 * n - 1], ends[2 * n] = lease_end, id
    give(id, fence, record)
  end
  call_all('HSET', fences, tokens)
  call_all('ZADD', run, ends)
  redis.call('HSET', sent, 'claim', number .. ':' .. waits .. table.concat(ids))
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
elseif again then
  write_on_a_full_server()
  redis.call('HSET', sent, 'claim', number .. ':' .. waits)
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
end
return { 'ok', micros, next_due(), waits, reply }
