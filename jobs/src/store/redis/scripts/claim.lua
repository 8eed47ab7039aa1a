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

local function give(id, fence, record)
  reply[#reply + 1] = id
  reply[#reply + 1] = fence
  reply[#reply + 1] = record
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
  from = from + 1
  while from < #last do
    local id = string.sub(last, from, from + 15)
    local fence = redis.call('HGET', fences, id)
    if fence and string.sub(fence, 9, 16) == nonce then
      redis.call('ZADD', run, now + lease, id)
      give(id, fence, redis.call('HGET', jobs, id))
    end
    from = from + 16
  end
  return { 'ok', micros, next_due(), waits, reply }
end

-- The candidates of each kind, by deadline.
local lists, cursors = {}, {}
for n = at, #ARGV do
  local kind = ARGV[n]
  lists[kind] = redis.call('ZRANGEBYSCORE', due[kind], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  cursors[kind] = 1
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

local taken, bytes = {}, 0
while #taken < limit and bytes < most_bytes do
  local kind, time = earliest_kind()
  if not kind then
    break
  end
  local id = lists[kind][cursors[kind]]
  local record = redis.call('HGET', jobs, id)
  if not record then
    -- Somebody has removed it by hand. There is nothing to run, and it keeps no others back.
    redis.call('ZREM', due[kind], id)
    count(kind, -1)
    settle()
    return { 'ok', micros, now, 0, reply }
  end
  local flags, _, interruptions, _, kind_bytes, key_bytes = struct.unpack(HEAD, record)
  if may_run(interruptions) then
    cursors[kind] = cursors[kind] + 2
    bytes = bytes + #record
    taken[#taken + 1] = { id = id, kind = kind, due = time, record = record, flags = flags,
      key = string.sub(record, HEAD_BYTES + kind_bytes + 1, HEAD_BYTES + kind_bytes + key_bytes) }
  else
    blocked[kind] = true
    waits = 1
  end
end

if #taken > 0 then
  local ids = {}
  -- These have their types, or nothing is claimed.
  redis.call('HLEN', fences)
  redis.call('ZCARD', run)
  redis.call('HLEN', meta)
  -- A full server still runs what it has.
  write_on_a_full_server()
  local first = redis.call('HINCRBY', meta, 'claims', #taken) - #taken
  for n, job in ipairs(taken) do
    redis.call('ZREM', due[job.kind], job.id)
    local key = job.key
    if key ~= '' and redis.call('HGET', keys, key) ~= job.id then
      key = ''
    end
    local fence = struct.pack('>I8', first + n) .. nonce .. owner
      .. struct.pack('>I8BB', job.due, job.flags, #job.kind) .. job.kind .. key
    redis.call('HSET', fences, job.id, fence)
    redis.call('ZADD', run, now + lease, job.id)
    ids[n] = job.id
    give(job.id, fence, job.record)
  end
  redis.call('HSET', sent, 'claim', number .. ':' .. waits .. table.concat(ids))
  redis.call('PEXPIRE', sent, 3600000)
elseif again then
  write_on_a_full_server()
  redis.call('HSET', sent, 'claim', number .. ':' .. waits)
  redis.call('PEXPIRE', sent, 3600000)
end
return { 'ok', micros, next_due(), waits, reply }
