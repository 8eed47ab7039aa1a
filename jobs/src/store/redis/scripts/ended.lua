-- Keeps, counts and removes jobs that have ended.

-- The member of `dead_by_error` for a dead job: its kind, and the first line of its error.
local function group_of(job)
  local is_read, errors = pcall(cjson.decode, job.errors)
  local latest = is_read and type(errors) == 'table' and errors[1]
  local text = type(latest) == 'table' and latest.error
  -- As `AttemptErrors::first_line`: a line ends with a line feed, which may have a carriage return before it.
  local line = type(text) == 'string' and (string.match(text, '^([^\n]*)\r\n') or string.match(text, '^[^\n]*')) or ''
  return string.char(#job.kind) .. job.kind .. line
end

-- Notes a death in the times of a group of dead jobs: of the first, and of the last.
local function note_death(group)
  local field = 'died:' .. group
  local value = redis.call('HGET', counters, field)
  local first, last = string.match(value or '', '^(%d+) (%d+)$')
  first, last = values.number(first, LATEST), values.number(last, LATEST)
  if value and not (first and last) then
    values.set_aside('HDEL', counters, field, value)
  end
  first, last = math.min(first or now, now), math.max(last or now, now)
  redis.call('HSET', counters, field, string.format('%.0f %.0f', first, last))
end

-- How many bytes of a kept job count against the bound of its kind.
local function bytes_of(job)
  return #job.payload - (has(job.flags, EXTRA) and 2 or 0) + #job.result + #job.errors
end

-- Keeps a job that has ended. `job`: its record before that. `till`: until when it is kept.
local function keep(id, job, ending, due_time, took, result, till)
  job.flags = job.flags + ENDED
  job.ending, job.due, job.ended_at, job.took, job.result = ending, due_time, now, took, result
  redis.call('HSET', jobs, id, write(job))
  redis.call('ZADD', ended, math.min(till, LATEST), id)
  local by_time, by_kind = places(ending, job.kind, now, id)
  redis.call('ZADD', over, 0, by_time, 0, by_kind)
  if ending == AS_DEAD then
    local group = group_of(job)
    redis.call('ZINCRBY', dead_by_error, 1, group)
    note_death(group)
  elseif ending == AS_COMPLETED then
    values.add(counters, 'kept_bytes:' .. job.kind, bytes_of(job))
  end
end

-- Removes a job that is dead or kept, and everything that counts it.
local function take_ended(id, job)
  redis.call('HDEL', jobs, id)
  local has_date = redis.call('ZREM', ended, id) == 1
  local list = not has_date and job.ending == AS_COMPLETED and kept_lists.list_of(id, job)
  if list then
    kept_lists.take(job.kind, list, id, bytes_of(job))
    return
  end
  redis.call('ZREM', over, places(job.ending, job.kind, job.ended_at, id))
  if job.ending == AS_DEAD then
    local group = group_of(job)
    if tonumber(redis.call('ZINCRBY', dead_by_error, -1, group)) <= 0 then
      redis.call('ZREM', dead_by_error, group)
      redis.call('HDEL', counters, 'died:' .. group)
    end
  elseif job.ending == AS_COMPLETED then
    values.add(counters, 'kept_bytes:' .. job.kind, 0 - bytes_of(job))
    local rest = is_wanted(job) and struct.pack('>I8', job.ended_at) .. id .. struct.pack('>I4', bytes_of(job))
    if rest and redis.call('ZREM', over, kept_lists.waited_place(job.kind, rest)) == 1 then
      values.add(counters, 'waited_bytes:' .. job.kind, 0 - bytes_of(job))
    end
  end
end

-- Whether the id of a job that has ended is remembered when the job goes: if its caller chose it and it may not be
-- forgotten yet.
local function is_remembered(job)
  return has(job.flags, CALLERS_ID) and job.ended_at + keep_dead >= now
end

-- Removes a job that is dead or kept, because its time is over.
local function drop_ended(id, job)
  take_ended(id, job)
  if is_remembered(job) then
    remember_id(id, job.ended_at)
  end
end

-- Makes a job dead. `job`: its record before that. `failed_before`: it was counted as one that has failed.
local function bury(id, job, due_time, took, failed_before)
  if job.key ~= '' then
    if redis.call('HGET', keys, job.key) == id then
      redis.call('HDEL', keys, job.key)
    else
      -- Another job took it.
      job.key = ''
    end
  end
  count_retrying(job.kind, failed_before and -1 or 0)
  keep(id, job, AS_DEAD, due_time, took, '', now + keep_dead)
  count(job.kind, -1)
end
