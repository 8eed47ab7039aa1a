-- Reclaims the jobs whose leases have expired, and returns what other processes have changed. Each process
-- that runs jobs polls once a second.
--
-- A call reclaims 256 jobs at most. Each counts an interruption. A job with MOST_INTERRUPTIONS in a row is
-- dead, unless its process claimed another suspect after it: that one is the more likely cause, so the job
-- becomes pending again with one interruption fewer.
--
-- ARGV from `at` on: the error of a job that dies.
-- Returns { 'ok', microseconds, 1 if more leases may have expired, how often the schedules were changed,
-- ids of the caller's claims whose cancel is requested, names of values that were set aside, how many claims were
-- reclaimed }.
--
-- Needs: records, fences, lanes, lane_filing, history, groups, ends, progress, ended, heal_lanes.

local expired = redis.call('ZRANGEBYSCORE', run, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, 256)
-- A lease that ends in no year was written by another program. It gets an end, before which its process may renew it.
local END_OF_NO_YEAR, SHORT_LEASE_MS = '1e15', 30000
for _, id in ipairs(redis.call('ZRANGEBYSCORE', run, END_OF_NO_YEAR, '+inf', 'LIMIT', 0, 256)) do
  write_on_a_full_server()
  redis.call('ZADD', run, now + SHORT_LEASE_MS, id)
end
-- Places may be left of claims that were made while there were limits.
local has_lanes = redis.call('HLEN', flow) > 0 or redis.call('ZCARD', held) > 0
local is_last_part = #expired < 256

-- For each owner, the number of its latest claim of a suspect.
local latest = {}

local function note_suspect(claim)
  if claim and claim.interruptions > 0 then
    latest[claim.owner] = math.max(latest[claim.owner] or 0, claim.number)
  end
end

-- A poll of more than 256 jobs takes several calls. Each leaves its `latest` in fields of `meta` for the next.
local AFTER = 'after:'

local function learn_suspects(found)
  local ends_here = false
  for _, claim in pairs(found) do
    note_suspect(claim)
    ends_here = ends_here or claim.interruptions >= MOST_INTERRUPTIONS - 1
  end
  for whose, number in pairs(latest) do
    local before = values.number(redis.call('HGET', meta, AFTER .. whose)) or 0
    latest[whose] = math.max(number, before)
    if not is_last_part then
      redis.call('HSET', meta, AFTER .. whose, string.format('%.0f', latest[whose]))
    end
  end
  if ends_here then
    for _, fence in ipairs(redis.call('HVALS', fences)) do
      note_suspect(read_fence(fence))
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

-- For each expired id, the claim as its fence describes it.
local claim_of = {}
if #expired > 0 then
  check_types(grouped)
  write_on_a_full_server()
  -- If the user has lost the right to add to a sorted set, this fails before the first write. It adds nothing, since no
  -- member is ''.
  redis.call('ZADD', run, 'XX', '0', '')
  for n, fence in ipairs(get_all(fences, expired)) do
    claim_of[expired[n]] = read_fence(fence)
    if fence and not claim_of[expired[n]] then
      values.set_aside('HDEL', fences, expired[n], fence)
    end
  end
  learn_suspects(claim_of)
end
for _, id in ipairs(expired) do
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if #id == 16 then
    redis.call('ZREM', run, id)
  else
    values.set_aside('ZREM', run, id)
  end
  redis.call('HDEL', fences, id)
  local its_progress = run_progress.take(id)
  -- If a fence or a record was removed by hand, repair what is left. Do not block the other expired jobs.
  local its_claim = claim_of[id]
  local claim = its_claim
    or job and { kind = job.kind, key = job.key, flags = job.flags, due = now, has_failed = job.failures > 0 }
  local due_time = claim and claim.due or now
  if has_lanes then
    free_place(id, claim and claim.scope or UNKNOWN)
  end
  if redis.call('SREM', cancel_requested, id) == 1 or not record then
    grouped.leave(id, job, 'cancelled')
    if claim then
      note(claim.kind, CANCELLED_JOB, 1)
      forget(id, claim)
    end
    if claim and job and is_wanted(job) then
      keep(id, job, AS_CANCELLED, due_time, 0, '', now + WANTED_KEPT_MS)
    else
      redis.call('HDEL', jobs, id)
    end
  elseif not job then
    values.set_aside('HDEL', jobs, id, record)
    if claim then
      forget(id, claim)
    end
  else
    if its_progress ~= '' then
      run_progress.give(job, its_progress)
    end
    job.interruptions = job.interruptions + 1
    job.attempts = job.attempts + 1
    if job.interruptions >= MOST_INTERRUPTIONS and its_claim
      and (latest[its_claim.owner] or 0) > its_claim.number then
      job.interruptions = MOST_INTERRUPTIONS - 1
    end
    note(job.kind, job.interruptions >= MOST_INTERRUPTIONS and DEAD or INTERRUPTED, 1)
    if job.interruptions >= MOST_INTERRUPTIONS then
      -- A new error before the others, of which four stay: see `values/fail_and_retry.rs`. No text of an error has the
      -- beginning of one, since its quotation marks are escaped.
      local error = string.format('{"at":%.0f,"attempt":%d,"node":"","error":"%s"}', now, job.attempts, ARGV[at])
      local others, to = job.errors, 1
      for _ = 1, 4 do
        to = to and string.find(others, ',{"at":', to + 1, true)
      end
      others = to and string.sub(others, 1, to - 1) .. ']' or others
      job.errors = '[' .. error .. (others == '' and ']' or ',' .. string.sub(others, 2))
      if #job.errors > 65535 then
        job.errors = '[' .. error .. ']'
      end
      bury(id, job, due_time, 0, job.failures > 0)
      grouped.leave(id, job, 'dead')
    else
      redis.call('HSET', jobs, id, write(job))
      enqueue(job.kind, id, due_time, job.interruptions, lane_of_job(job))
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
    local claim = read_fence(redis.call('HGET', fences, id))
    if claim and claim.owner == owner then
      wanted[#wanted + 1] = id
    elseif #id ~= 16 then
      values.set_aside('SREM', cancel_requested, id)
    elseif not claim and not redis.call('ZSCORE', run, id) then
      -- Only a claim has a request.
      redis.call('SREM', cancel_requested, id)
    end
  end
end
local version = values.number(redis.call('HGET', meta, 'schedules')) or 0
return { 'ok', micros, is_last_part and 0 or 1, version, wanted, values.named, #expired }
