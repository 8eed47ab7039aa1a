-- Keeps, counts and removes jobs that have ended.
--
-- Gives: keep, shorten_list, take_ended, bury.
-- Needs: records, kept_lists, ends, progress.

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

-- Keeps a job that has ended. `job`: its record before that. `till`: until when it is kept.
local function keep(id, job, ending, due_time, took, result, till)
  if ending ~= AS_DEAD then
    run_progress.give(job, '')
  end
  job.flags = job.flags + ENDED
  job.ending, job.due, job.ended_at, job.took, job.result = ending, due_time, now, took, result
  redis.call('HSET', jobs, id, write(job))
  local letter = ending == AS_EXPIRED and is_wanted(job) and kept_lists.WAITED_FOR or kept_lists.letter(ending)
  local list = kept_lists.new(letter, job.kind, now, { id }, kept_lists.bytes_of(job))
  redis.call('ZADD', ended, math.min(till, LATEST), list)
  redis.call('ZADD', over, 0, list)
  if ending == AS_DEAD then
    local group = group_of(job)
    redis.call('ZINCRBY', dead_by_error, 1, group)
    note_death(group)
  end
end

-- Puts a shorter list in the place of a list, or removes it if no id is left. `left`: the ids that stay. `bytes`: what they
-- count. Returns how many bytes less are counted.
local function shorten_list(list, left, bytes)
  local ended_at, _, bytes_before = kept_lists.read(list)
  bytes = #left > 0 and math.max(bytes, 0) or 0
  if #left > 0 then
    local shorter = kept_lists.new(AS_COMPLETED, kept_lists.kind_of(list), ended_at, left, bytes)
    redis.call('ZADD', over, '0', shorter)
    -- If a user has removed the date, the list goes with the next purge.
    redis.call('ZADD', ended, redis.call('ZSCORE', ended, list) or '0', shorter)
  end
  redis.call('ZREM', over, list)
  redis.call('ZREM', ended, list)
  return bytes_before - bytes
end

-- Removes a job that is dead or kept, and everything that counts it.
local function take_ended(id, job)
  redis.call('HDEL', jobs, id)
  local list = kept_lists.of(id, job)
  if list then
    local left = {}
    for _, its in ipairs(kept_lists.ids(list)) do
      left[#left + 1] = its ~= id and its or nil
    end
    local _, _, bytes = kept_lists.read(list)
    local bytes_less = shorten_list(list, left, bytes - kept_lists.bytes_of(job))
    if kept_lists.is_counted(list) then
      -- Not `-bytes_less`: the server takes `-0` for no integer.
      kept_lists.count(job.kind, -1, 0 - bytes_less)
    end
  end
  if job.ending == AS_DEAD then
    local group = group_of(job)
    if tonumber(redis.call('ZINCRBY', dead_by_error, -1, group)) <= 0 then
      redis.call('ZREM', dead_by_error, group)
      redis.call('HDEL', counters, 'died:' .. group)
    end
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
  remember(id, job.flags)
  count_retrying(job.kind, failed_before and -1 or 0)
  keep(id, job, AS_DEAD, due_time, took, '', now + keep_dead)
  count(job.kind, -1)
end
