-- Changes to claimed jobs. Each operation carries the token of its claim, and does nothing if that claim is no
-- longer held. `apply.lua` says how operations are called.

-- Ends the claim with this token. Returns the claim as its fence describes it, and the fence. Nil if the job
-- has no claim with this token.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= token then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  return read_fence(fence), fence
end

-- Removes a claimed job from all keys but `jobs`, which has its record.
local function forget(id, claim)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count(claim.kind, -1)
end

-- Ends a run that failed or was snoozed. `fate`: see `Fate` in `protocol.rs`. `errors`: those of earlier attempts,
-- and this one.
local function finish(id, token, fate, time, errors)
  local claim, fence = end_claim(id, token)
  if not claim then
    return CLAIM_LOST
  end
  local record = redis.call('HGET', jobs, id)
  if take_cancel_request(id) or not record then
    redis.call('HDEL', jobs, id)
    forget(id, claim)
    return DONE
  end
  local job = read(record)
  if not job then
    set_aside(id, record)
    forget(id, claim)
    return DONE
  end
  if fate ~= 'snoozed' then
    job.failures = job.failures + 1
    job.attempts = job.attempts + 1
    job.errors = errors
  end
  if fate == 'dead' then
    bury(id, job, due_of(fence))
  else
    job.interruptions = 0
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
    local fence = found[n]
    results[n] = CLAIM_LOST
    if fence and string.sub(fence, 1, TOKEN_BYTES) == ARGV[first + 2 * n - 1] then
      results[n] = DONE
      ended[#ended + 1] = id
      take_cancel_request(id)
      forget(id, read_fence(fence))
    end
  end
  call_all('ZREM', run, ended)
  call_all('HDEL', fences, ended)
  call_all('HDEL', jobs, ended)
  return table.concat(results)
end

operations.finish = function()
  local id, token, fate, time, errors = args(5)
  return finish(id, token, fate, tonumber(time), errors)
end

-- Gives a claim back, as if it had never been made.
operations.release = function()
  local id, token = args(2)
  local claim, fence = end_claim(id, token)
  if not claim then
    return DONE
  end
  if take_cancel_request(id) then
    redis.call('HDEL', jobs, id)
    forget(id, claim)
  else
    enqueue(claim.kind, id, due_of(fence), interruptions_of(fence))
  end
  return DONE
end
