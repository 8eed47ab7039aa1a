-- Changes to claimed jobs. Each operation carries the token of its claim, and does nothing if that claim is no
-- longer held. `apply.lua` says how operations are called.

-- Whether any run has progress: read once for the call, since almost always none has.
local is_any_progress

local function drop_progress(ids)
  if is_any_progress == nil then
    is_any_progress = redis.call('HLEN', progress) > 0
  end
  if is_any_progress then
    call_all('HDEL', progress, ids)
  end
end

-- Ends the claim with this token, behind which the buckets of its run may stand. Returns the claim as its fence
-- describes it, and the fence. Nil if the job has no claim with this token.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= string.sub(token, 1, TOKEN_BYTES) then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  drop_progress({ id })
  return read_fence(fence), fence
end

-- Removes a claimed job from all keys but `jobs`, which has its record.
local function forget(id, claim, fence)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count(claim.kind, -1)
  count_retrying(claim.kind, has_failed(fence) and -1 or 0)
end

-- Removes a claimed job that was cancelled, and keeps it if a caller waits for its end.
local function forget_cancelled(id, claim, fence, took)
  local record = has(claim.flags, EXTRA) and redis.call('HGET', jobs, id)
  local job = record and read(record)
  if job and is_wanted(job) then
    free_key(claim.key, id)
    count(claim.kind, -1)
    count_retrying(claim.kind, has_failed(fence) and -1 or 0)
    keep(id, job, AS_CANCELLED, due_of(fence), took, '', now + WANTED_KEPT_MS)
  else
    redis.call('HDEL', jobs, id)
    forget(id, claim, fence)
  end
end

local FIGURE_OF_FATE = { retried = RETRIED, snoozed = SNOOZED, dead = DEAD }

-- Ends a run that failed, was snoozed or was cancelled. `fate`: see `Fate` in `protocol.rs`. `errors`: those of earlier attempts,
-- and this one. `took`: how long the run took.
local function finish(id, token, fate, time, errors, took)
  local claim, fence = end_claim(id, token)
  if not claim then
    return CLAIM_LOST
  end
  local record = redis.call('HGET', jobs, id)
  if take_cancel_request(id) or fate == 'cancelled' or not record then
    note_run(claim.kind, CANCELLED_JOB, token)
    forget_cancelled(id, claim, fence, took)
    return DONE
  end
  local job = read(record)
  note_run(claim.kind, FIGURE_OF_FATE[fate], token)
  if not job then
    set_aside(id, record)
    forget(id, claim, fence)
    return DONE
  end
  local failed_before = job.failures > 0
  if fate ~= 'snoozed' then
    job.failures = job.failures + 1
    job.attempts = job.attempts + 1
    job.errors = errors
  end
  if fate == 'dead' then
    bury(id, job, due_of(fence), took, failed_before)
  else
    job.interruptions = 0
    count_retrying(job.kind, fate ~= 'snoozed' and not failed_before and 1 or 0)
    redis.call('HSET', jobs, id, write(job))
    enqueue(job.kind, id, time, 0)
  end
  return DONE
end

-- Ends runs that completed, and removes their jobs. One result for each.
operations.complete = function()
  local many = tonumber(args(1))
  local ids, first = {}, at
  for n = 1, many do
    ids[n] = ARGV[first + 2 * n - 2]
  end
  at = at + 2 * many
  local found = get_all(fences, ids)
  local results, ended = {}, {}
  for n, id in ipairs(ids) do
    local fence, token = found[n], ARGV[first + 2 * n - 1]
    results[n] = CLAIM_LOST
    if fence and string.sub(fence, 1, TOKEN_BYTES) == string.sub(token, 1, TOKEN_BYTES) then
      results[n] = DONE
      ended[#ended + 1] = id
      take_cancel_request(id)
      local claim = read_fence(fence)
      note_run(claim.kind, COMPLETED, token)
      forget(id, claim, fence)
    end
  end
  call_all('ZREM', run, ended)
  call_all('HDEL', fences, ended)
  drop_progress(ended)
  call_all('HDEL', jobs, ended)
  return table.concat(results)
end

-- Ends a run that completed, and keeps its job. `age`: for how long, or '' if its kind keeps none and only a caller
-- waits for its end. `last`, `bytes`: how many jobs of its kind are kept, and how many bytes of them.
operations.complete_and_keep = function()
  local id, token, took, result, age, last, bytes = args(7)
  local claim, fence = end_claim(id, token)
  if not claim then
    return CLAIM_LOST
  end
  take_cancel_request(id)
  note_run(claim.kind, COMPLETED, token)
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not job then
    if record then
      set_aside(id, record)
    end
    forget(id, claim, fence)
    return DONE
  end
  free_key(claim.key, id)
  count(claim.kind, -1)
  count_retrying(claim.kind, job.failures > 0 and -1 or 0)
  if claim.key == '' then
    -- Another job took it, or it had none.
    job.key = ''
  end
  local till = is_wanted(job) and now + WANTED_KEPT_MS or now
  if age ~= '' then
    till = math.max(till, now + tonumber(age))
  end
  keep(id, job, AS_COMPLETED, due_of(fence), tonumber(took), result, till)
  if age == '' then
    return DONE
  end
  -- Two at most, so that a lower bound makes no script long. None on whose end a caller waits.
  local all, final = range_of(AS_COMPLETED, job.kind)
  local first, removed = all, 0
  for _ = 1, TRIM_LOOKS do
    local kept_bytes = tonumber(redis.call('HGET', counters, 'kept_bytes:' .. job.kind)) or 0
    local has_room = redis.call('ZLEXCOUNT', over, all, final) <= tonumber(last) and kept_bytes <= tonumber(bytes)
    if has_room or removed == TRIMMED then
      break
    end
    local oldest = redis.call('ZRANGEBYLEX', over, first, final, 'LIMIT', 0, 1)[1]
    if not oldest then
      break
    end
    local its_id = string.sub(oldest, -16)
    local its_record = redis.call('HGET', jobs, its_id)
    local its_job = its_record and read(its_record)
    if its_job and has(its_job.flags, ENDED) then
      if is_wanted(its_job) and its_job.ended_at + WANTED_KEPT_MS >= now then
        first = '(' .. oldest
      else
        drop_ended(its_id, its_job)
        removed = removed + 1
      end
    else
      redis.call('ZREM', over, oldest)
    end
  end
  return DONE
end

operations.finish = function()
  local id, token, fate, time, errors, took = args(6)
  return finish(id, token, fate, tonumber(time), errors, tonumber(took))
end

-- Sets the progress of a run.
operations.put_progress = function()
  local id, token, value = args(3)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= token then
    return DONE
  end
  redis.call('HSET', progress, id, value)
  is_any_progress = true
  return DONE
end

-- Gives a claim back, as if it had never been made. `interrupted`: '1' if a run was under way.
operations.release = function()
  local id, token, interrupted = args(3)
  local claim, fence = end_claim(id, token)
  if not claim then
    return DONE
  end
  if take_cancel_request(id) then
    note(claim.kind, CANCELLED_JOB, 1)
    forget_cancelled(id, claim, fence, 0)
  else
    if interrupted == '1' then
      note(claim.kind, INTERRUPTED, 1)
    end
    enqueue(claim.kind, id, due_of(fence), interruptions_of(fence))
  end
  return DONE
end
