-- Changes to claimed jobs: each bears the token of its claim, and without it does nothing.

-- Ends a claim if it is held with this token. Answers what its fence says, and the fence.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= token then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  return read_fence(fence), fence
end

-- A claimed job is no more, but for its record.
local function forget(id, claim)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count(claim.kind, -1)
end

-- A run has failed, or has put its job off.
local function finish(id, token, fate, time, reason)
  local claim, fence = end_claim(id, token)
  if not claim then
    return 'x'
  end
  local record = redis.call('HGET', jobs, id)
  if is_asked(id) or not record then
    redis.call('HDEL', jobs, id)
    forget(id, claim)
    return 'd'
  end
  local job = read(record)
  if not job then
    set_aside(id, record)
    forget(id, claim)
    return 'd'
  end
  if fate ~= 's' then
    job.failures = job.failures + 1
    job.attempts = job.attempts + 1
    job.error = reason
  end
  if fate == 'd' then
    die(id, job, deadline_of(fence))
  else
    job.interruptions = 0
    redis.call('HSET', jobs, id, write(job))
    file(job.kind, id, time, 0)
  end
  return 'd'
end

-- Runs have ended well: the jobs are gone.
operations.G = function()
  local many = tonumber(ARGV[at + 1])
  at = at + 2
  local ids = {}
  for n = 1, many do
    ids[n] = ARGV[at + 2 * n - 2]
  end
  local found = get_all(fences, ids)
  local letters, ended = {}, {}
  for n, id in ipairs(ids) do
    local fence = found[n]
    letters[n] = 'x'
    if fence and string.sub(fence, 1, TOKEN_BYTES) == ARGV[at + 2 * n - 1] then
      letters[n] = 'd'
      ended[#ended + 1] = id
      is_asked(id)
      forget(id, read_fence(fence))
    end
  end
  at = at + 2 * many
  call_all('ZREM', run, ended)
  call_all('HDEL', fences, ended)
  call_all('HDEL', jobs, ended)
  return table.concat(letters)
end

-- Finish otherwise.
operations.F = function()
  local id, token, fate = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local answer = finish(id, token, fate, tonumber(ARGV[at + 4]), ARGV[at + 5])
  at = at + 6
  return answer
end

-- Release.
operations.L = function()
  local id, token = ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local claim, fence = end_claim(id, token)
  if not claim then
    return 'd'
  end
  if is_asked(id) then
    redis.call('HDEL', jobs, id)
    forget(id, claim)
  else
    file(claim.kind, id, deadline_of(fence), interruptions_of(fence))
  end
  return 'd'
end
