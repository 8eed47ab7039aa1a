-- Functions for every job that ends: they free its key, remember its id, and count it no more.

-- Frees a key if this job has it.
local function free_key(key, id)
  if key ~= '' and redis.call('HGET', keys, key) == id then
    redis.call('HDEL', keys, key)
  end
end

-- Remembers an id whose job has ended.
local function remember_id(id, ended_at)
  redis.call('ZADD', ended, math.min(ended_at + keep_dead, LATEST), id)
end

-- The number of jobs that have failed and are not dead, by kind.
local function count_retrying(kind, by)
  if by ~= 0 then
    values.add(counters, 'retrying:' .. kind, by)
  end
end

-- Remembers the id of a job that ends now, if its caller chose it.
local function remember(id, flags)
  if has(flags, CALLERS_ID) then
    remember_id(id, now)
  end
end
