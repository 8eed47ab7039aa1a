-- Makes jobs due again whose lease has ended, 256 at most. Answers whether there may be more of them,
-- how often the schedules were changed, and which claims of the caller somebody wants cancelled.

local expired = redis.call('ZRANGEBYSCORE', run, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, 256)
if #expired > 0 then
  check_types()
  write_on_a_full_server()
end
for _, id in ipairs(expired) do
  local fence, record = redis.call('HGET', fences, id), redis.call('HGET', jobs, id)
  local job = record and read(record)
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  -- Somebody has removed one of them by hand: what there is goes on, and keeps no others back.
  local claim = fence and read_fence(fence)
    or job and { kind = job.kind, key = job.key, flags = job.flags }
  local deadline = fence and deadline_of(fence) or now
  if redis.call('SREM', asked, id) == 1 or not record then
    redis.call('HDEL', jobs, id)
    if claim then
      free_key(claim.key, id)
      if has(claim.flags, CALLERS_ID) then
        redis.call('ZADD', done, now, id)
      end
      count(claim.kind, -1)
    end
  else
    job.interruptions = job.interruptions + 1
    job.runs = job.runs + 1
    if job.interruptions >= MOST_INTERRUPTIONS then
      job.error = ARGV[at]
      die(id, job, deadline)
    else
      redis.call('HSET', jobs, id, write(job))
      file(claim.kind, id, deadline)
    end
  end
end
settle()

local wanted = {}
if redis.call('SCARD', asked) > 0 then
  local ids = redis.call('SRANDMEMBER', asked, 256)
  for _, id in ipairs(ids) do
    local fence = redis.call('HGET', fences, id)
    if fence and owner_of(fence) == owner then
      wanted[#wanted + 1] = id
    end
  end
end
local version = tonumber(redis.call('HGET', meta, 'schedules')) or 0
return { 'ok', micros, #expired == 256 and 1 or 0, version, wanted }
