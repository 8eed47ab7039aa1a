-- Changes to jobs that wait or are dead, and to schedules. Each answers letters. `ends.lua` has those to
-- claimed jobs, and `apply.lua` does what the list says: they are the rest of this script.
--
-- A call that is sent again, because its answer was lost, bears the same number in the same place:
-- it changes nothing, and has the answer that it had. A copy of it that arrives after later calls
-- does nothing, and nobody waits for it.

local place, number, before = ARGV[at], ARGV[at + 1], ARGV[at + 2]
at = at + 3

-- The number and the answer of the last call in a place.
local function last_in(slot)
  local last = redis.call('HGET', sent, slot)
  if not last then
    return 0
  end
  local colon = string.find(last, ':', 1, true)
  return tonumber(string.sub(last, 1, colon - 1)), string.sub(last, colon + 1)
end

local last_number, last_answer = last_in(place)
if last_number == tonumber(number) then
  return { 'ok', micros, last_answer }
end
-- What is a part of something larger comes after the part before it, or not at all.
if last_number > tonumber(number) or before ~= '' and last_in(before) ~= tonumber(number) then
  return { 'ok', micros, '' }
end

-- A list of inserts reads whatever it writes to.
if ARGV[at] ~= 'J' or at + 2 + 3 * tonumber(ARGV[at + 2]) ~= #ARGV then
  check_types()
end
-- Only inserts, occurrences, schedules and what is retried are refused by a full server.
local GROWS = { I = true, J = true, O = true, S = true, V = true }
if not GROWS[ARGV[at]] then
  write_on_a_full_server()
end

local answers = {}
-- Nobody has asked a run to stop, in almost every call.
local any_asked = redis.call('SCARD', asked) > 0

local function is_asked(id)
  return any_asked and redis.call('SREM', asked, id) == 1
end

local function is_claimed(id)
  return redis.call('ZSCORE', run, id) ~= false
end

local function remember(id, flags)
  if has(flags, CALLERS_ID) then
    redis.call('ZADD', done, now, id)
  end
end

-- Removes a job that waits, for good.
local function remove(id, job)
  redis.call('ZREM', due[job.kind], id)
  redis.call('HDEL', jobs, id)
  free_key(job.key, id)
  remember(id, job.flags)
  count(job.kind, -1)
end

-- The job that waits and has this id.
local function waiting(id)
  local record = redis.call('HGET', jobs, id)
  if not record or is_claimed(id) then
    return nil
  end
  local job = read(record)
  if not job or has(job.flags, DEAD) then
    return nil
  end
  return job
end

-- The job that has this key, and what its record says. There is none if somebody has removed the record by
-- hand, or if it makes no sense.
local function holder_of(key)
  local id = redis.call('HGET', keys, key)
  local record = id and redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not job then
    return nil
  end
  return id, job
end

-- The same of a job that waits.
local function waiting_holder_of(key)
  local id, job = holder_of(key)
  if not id or is_claimed(id) then
    return nil
  end
  return id, job
end

-- The answer of what was not done, because this job has the key.
local function taken(id, key)
  local detail = id .. key
  return 't' .. struct.pack('>I2', #detail) .. detail
end

local function insert(id, kind, time, mode, key, record)
  if redis.call('HEXISTS', jobs, id) == 1 then
    return 'k'
  end
  if has(string.byte(record, 1), CALLERS_ID) and redis.call('ZSCORE', done, id) then
    return 'k'
  end
  learn_head(kind)
  if mode ~= '' then
    local holder, other = holder_of(key)
    local runs = holder and is_claimed(holder)
    if runs and holds_key(other) or holder and not runs and mode == 'L' then
      return taken(holder, '')
    end
    if holder and not runs then
      if mode == 'K' then
        local score = redis.call('ZSCORE', due[other.kind], holder)
        time = score and time_of(tonumber(score)) or time
      end
      remove(holder, other)
    end
    redis.call('HSET', keys, key, id)
  end
  redis.call('HSET', jobs, id, record)
  file(kind, id, time, 0)
  count(kind, 1)
  return 'n'
end

local operations = {}

operations.I = function()
  local id, kind, time = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local answer = insert(id, kind, time, ARGV[at + 4], ARGV[at + 5], ARGV[at + 6])
  at = at + 7
  return answer
end

-- Inserts jobs of one kind, which have no keys, and ids that were made for this.
operations.J = function()
  local kind, many = ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  local ids = {}
  for n = 1, many do
    ids[n] = ARGV[at + 3 * n - 3]
  end
  local stored = get_all(jobs, ids)
  local letters, records, deadlines, earliest = {}, {}, {}, math.huge
  for n, id in ipairs(ids) do
    letters[n] = 'k'
    if not stored[n] then
      letters[n] = 'n'
      local time = ARGV[at + 3 * n - 2]
      records[#records + 1] = id
      records[#records + 1] = ARGV[at + 3 * n - 1]
      deadlines[#deadlines + 1] = time
      deadlines[#deadlines + 1] = id
      earliest = math.min(earliest, tonumber(time))
    end
  end
  at = at + 3 * many
  if #records > 0 then
    note_head(kind, earliest)
    call_all('HSET', jobs, records)
    call_all('ZADD', due[kind], deadlines)
    count(kind, #records / 2)
  end
  return table.concat(letters)
end

-- Cancel.
operations.C = function()
  local id = ARGV[at + 1]
  at = at + 2
  if is_claimed(id) then
    redis.call('SADD', asked, id)
    any_asked = true
    tell('asked 0')
    return 'r'
  end
  local job = waiting(id)
  if not job then
    return 'g'
  end
  remove(id, job)
  return 'c'
end

-- Cancel the job with a key.
operations.c = function()
  local id, job = waiting_holder_of(ARGV[at + 1])
  at = at + 2
  if not id then
    return '0'
  end
  remove(id, job)
  return '1'
end

local function move(id, time)
  local job = id and waiting(id)
  if not job then
    return '0'
  end
  file(job.kind, id, time, job.interruptions)
  return '1'
end

-- Reset.
operations.R = function()
  local id, time = ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  return move(id, time)
end

operations.r = function()
  local id, time = waiting_holder_of(ARGV[at + 1]), tonumber(ARGV[at + 2])
  at = at + 3
  return move(id, time)
end

-- Retry.
operations.V = function()
  local id, time = ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  if not redis.call('ZSCORE', dead, id) then
    return '0'
  end
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if record and not job then
    return '0'
  end
  if job and job.key ~= '' then
    local holder = holder_of(job.key)
    if holder then
      return taken(holder, job.key)
    end
  end
  redis.call('ZREM', dead, id)
  redis.call('ZREM', died, id)
  if not record then
    return '0'
  end
  job.flags, job.failures, job.interruptions = job.flags - DEAD, 0, 0
  if job.key ~= '' then
    redis.call('HSET', keys, job.key, id)
  end
  redis.call('HSET', jobs, id, write(job))
  file(job.kind, id, time, 0)
  count(job.kind, 1)
  return '1'
end

-- Removes a dead job. Answers the flags of its record, if it has one.
local function delete_dead(id)
  local record = redis.call('HGET', jobs, id)
  redis.call('ZREM', dead, id)
  redis.call('ZREM', died, id)
  redis.call('HDEL', jobs, id)
  return record and string.byte(record, 1) or 0
end

-- Delete.
operations.D = function()
  local id = ARGV[at + 1]
  at = at + 2
  if not redis.call('ZSCORE', dead, id) then
    return '0'
  end
  remember(id, delete_dead(id))
  return '1'
end

-- Put a schedule. Its row: the next occurrence, what is done about missed ones, kind, rule, payload.
operations.S = function()
  local name, kind, rule = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local missed, payload, following = ARGV[at + 4], ARGV[at + 5], tonumber(ARGV[at + 6])
  at = at + 7
  local identity = struct.pack('>BI2', #kind, #rule) .. kind .. rule
  local row = redis.call('HGET', schedules, name)
  local same = row and string.sub(row, 17, 16 + #identity) == identity
  if same then
    following = struct.unpack('>I8', row)
  end
  row = struct.pack('>I8', following) .. missed .. identity .. payload
  redis.call('HSET', schedules, name, row)
  redis.call('HINCRBY', meta, 'schedules', 1)
  tell('asked 0')
  return same and '0' or '1'
end

-- Drop a schedule.
operations.s = function()
  local dropped = redis.call('HDEL', schedules, ARGV[at + 1])
  redis.call('HINCRBY', meta, 'schedules', 1)
  at = at + 2
  return dropped == 1 and '1' or '0'
end

-- Occurrences of a schedule become jobs.
operations.O = function()
  local name, expected, following = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
  local many = tonumber(ARGV[at + 4])
  at = at + 5
  local row = redis.call('HGET', schedules, name)
  if not row or #row < 8 or struct.unpack('>I8', row) ~= expected then
    at = at + 4 * many
    return '0'
  end
  for _ = 1, many do
    insert(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), '', '', ARGV[at + 3])
    at = at + 4
  end
  if following == '' then
    redis.call('HDEL', schedules, name)
  else
    row = struct.pack('>I8', tonumber(following)) .. string.sub(row, 9)
    redis.call('HSET', schedules, name, row)
  end
  return '1'
end

-- Purge.
operations.P = function()
  local before = '(' .. ARGV[at + 1]
  at = at + 2
  local old = redis.call('ZRANGEBYSCORE', died, '-inf', before, 'LIMIT', 0, 128)
  for _, id in ipairs(old) do
    delete_dead(id)
  end
  local forgotten = redis.call('ZRANGEBYSCORE', done, '-inf', before, 'LIMIT', 0, 128)
  for _, id in ipairs(forgotten) do
    redis.call('ZREM', done, id)
  end
  return (#old == 128 or #forgotten == 128) and '1' or '0'
end
