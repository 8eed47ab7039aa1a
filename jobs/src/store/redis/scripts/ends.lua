-- Changes to claimed jobs. Each bears the token of its claim, and does nothing if another claim has been
-- made since. `change.lua` says how operations are called.

-- Ends the claim that has this token. Returns what its fence says, and the fence; nil if it has another.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= token then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  return read_fence(fence), fence
end

-- Removes all of a claimed job but its record.
local function forget(id, claim)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count(claim.kind, -1)
end

-- Ends a run that failed or was snoozed. `fate`: see `Fate` in `protocol.rs`.
local function finish(id, token, fate, time, reason)
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
    job.error = reason
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

-- Runs that ended well: their jobs are gone. A result for each.
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
  local id, token, fate, time, reason = args(5)
  return finish(id, token, fate, tonumber(time), reason)
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
