-- Reclaims the jobs whose leases have expired, and returns what other processes have changed. Each process
-- that runs jobs polls once a second.
--
-- A call reclaims 256 jobs at most. Each counts an interruption. A job with MOST_INTERRUPTIONS in a row is
-- dead, unless its process claimed another suspect after it: that one is the more likely cause, so the job
-- becomes pending again with one interruption fewer.
--
-- ARGV from `at` on: the error of a job that dies.
-- Returns { 'ok', microseconds, 1 if more leases may have expired, how often the schedules were changed,
-- ids of the caller's claims whose cancel is requested, ids of unreadable records that were set aside, how many claims
-- were reclaimed }.

local expired = redis.call('ZRANGEBYSCORE', run, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, 256)
local senseless = {}
local has_lanes = redis.call('HLEN', flow) > 0
local is_last_part = #expired < 256

local function number_of(fence)
  return (struct.unpack('>I8', fence, 9))
end

local function is_whole(fence)
  return fence and #fence >= FENCE_BYTES + HEAD_BYTES
end

-- For each owner, the number of its latest claim of a suspect.
local latest = {}

local function note_suspect(fence)
  if is_whole(fence) and interruptions_of(fence) > 0 then
    local whose = owner_of(fence)
    latest[whose] = math.max(latest[whose] or 0, number_of(fence))
  end
end

-- A poll of more than 256 jobs takes several calls. Each leaves its `latest` in fields of `meta` for the next.
local AFTER = 'after:'

local function learn_suspects(found)
  local ends_here = false
  for _, fence in ipairs(found) do
    note_suspect(fence)
    ends_here = ends_here
      or is_whole(fence) and interruptions_of(fence) >= MOST_INTERRUPTIONS - 1
  end
  for whose, number in pairs(latest) do
    local before = tonumber(redis.call('HGET', meta, AFTER .. whose)) or 0
    latest[whose] = math.max(number, before)
    if not is_last_part then
      redis.call('HSET', meta, AFTER .. whose, string.format('%.0f', latest[whose]))
    end
  end
  if ends_here then
    for _, fence in ipairs(redis.call('HVALS', fences)) do
      note_suspect(fence)
    end
  end
  if is_last_part then
    for _, field in ipairs(redis.call('HKEYS', meta)) do
      if string.sub(field, 1, #AFTER) == AFTER then
        redis.call('HDEL', meta, field)
      end
    end
  end
end

local function is_another_more_likely(fence)
  return is_whole(fence) and (latest[owner_of(fence)] or 0) > number_of(fence)
end

local fence_of = {}
if #expired > 0 then
  check_types(grouped)
  write_on_a_full_server()
  -- If the user has lost the right to add to a sorted set, this fails before the first write. It adds nothing, since no
  -- member is ''.
  redis.call('ZADD', run, 'XX', '0', '')
  local found = {}
  for n, fence in ipairs(get_all(fences, expired)) do
    fence_of[expired[n]] = fence
    found[n] = fence
  end
  learn_suspects(found)
  call_all('HDEL', progress, expired)
end
for _, id in ipairs(expired) do
  local fence, record = fence_of[id], redis.call('HGET', jobs, id)
  local job = record and read(record)
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  -- If a fence or a record was removed by hand, repair what is left. Do not block the other expired jobs.
  fence = is_whole(fence) and due[read_fence(fence).kind] and fence
  local claim = fence and read_fence(fence)
    or job and { kind = job.kind, key = job.key, flags = job.flags }
  local due_time = fence and due_of(fence) or now
  if has_lanes then
    free_place(id, claim and claim.scope or UNKNOWN)
  end
  if redis.call('SREM', cancel_requested, id) == 1 or not record then
    grouped.leave(id, job, 'cancelled')
    if claim then
      note(claim.kind, CANCELLED_JOB, 1)
      free_key(claim.key, id)
      count(claim.kind, -1)
      count_retrying(claim.kind, (fence and has_failed(fence) or not fence and job and job.failures > 0) and -1 or 0)
    end
    if claim and job and is_wanted(job) then
      keep(id, job, AS_CANCELLED, due_time, 0, '', now + WANTED_KEPT_MS)
    else
      redis.call('HDEL', jobs, id)
      if claim and has(claim.flags, CALLERS_ID) then
        remember_id(id, now)
      end
    end
  elseif not job then
    set_aside(id, record)
    senseless[#senseless + 1] = id
    if claim then
      free_key(claim.key, id)
      count(claim.kind, -1)
      count_retrying(claim.kind, fence and has_failed(fence) and -1 or 0)
    end
  else
    job.interruptions = job.interruptions + 1
    job.attempts = job.attempts + 1
    if job.interruptions >= MOST_INTERRUPTIONS and is_another_more_likely(fence) then
      job.interruptions = MOST_INTERRUPTIONS - 1
    end
    note(job.kind, job.interruptions >= MOST_INTERRUPTIONS and DEAD or INTERRUPTED, 1)
    if job.interruptions >= MOST_INTERRUPTIONS then
      -- A new error before the others: see `values/attempt_errors.rs`.
      local error = string.format('{"at":%.0f,"attempt":%d,"node":"","error":"%s"}', now, job.attempts, ARGV[at])
      job.errors = '[' .. error .. (job.errors == '' and ']' or ',' .. string.sub(job.errors, 2))
      bury(id, job, due_time, 0, job.failures > 0)
      grouped.leave(id, job, 'dead')
    else
      redis.call('HSET', jobs, id, write(job))
      enqueue(claim.kind, id, due_time, job.interruptions, lane_of_job(job))
    end
  end
end
grouped.settle()
if has_lanes and is_last_part then
  look_at_lanes()
end
settle()
write_history()

local wanted = {}
if redis.call('SCARD', cancel_requested) > 0 then
  local ids = redis.call('SRANDMEMBER', cancel_requested, 256)
  for _, id in ipairs(ids) do
    local fence = redis.call('HGET', fences, id)
    if is_whole(fence) and owner_of(fence) == owner then
      wanted[#wanted + 1] = id
    end
  end
end
local version = tonumber(redis.call('HGET', meta, 'schedules')) or 0
return { 'ok', micros, is_last_part and 0 or 1, version, wanted, senseless, #expired }
