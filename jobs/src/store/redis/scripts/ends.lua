-- The steps of every end of a job and of a claim: the key is free, the id is remembered, the job is counted no more.
--
-- Gives: free_key, count_retrying, remember, is_any_cancel_requested, take_cancel_request, note_runs, note_run,
--   is_any_progress, drop_progress, forget_all_but_count, forget.
-- Needs: history.

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

-- Read once for the call, since almost always no cancel is requested.
local is_any_cancel_requested = redis.call('SCARD', cancel_requested) > 0

-- Whether the cancel of this claimed job was requested. Drops the request.
local function take_cancel_request(id)
  return is_any_cancel_requested and redis.call('SREM', cancel_requested, id) == 1
end

-- Counts ends of runs. `buckets`: the two bytes of the buckets of each of them, or less if the history does not count
-- them. A job that was too old to start had no run, and is in no bucket: both of its bytes are 255.
local function note_runs(kind, figure, buckets, number)
  local late, took = string.byte(buckets, 1, 2)
  if took then
    local of = figures_of(kind)
    note_figure(of, figure, number)
    if late == 255 then
      return
    end
    note_figure(of, LATE + math.min(late, TOOK - LATE - 1), number)
    note_figure(of, TOOK + math.min(took, FIGURES - TOOK - 1), number)
  end
end

-- Counts the end of a run. `token`: the token of its claim, and behind it the buckets.
local function note_run(kind, figure, token)
  note_runs(kind, figure, string.sub(token, TOKEN_BYTES + 1), 1)
end

-- The same for the progress of runs.
local is_any_progress = redis.call('HLEN', progress) > 0

local function drop_progress(ids)
  if is_any_progress then
    call_all('HDEL', progress, ids)
  end
end

-- Removes a claimed job from all keys but `jobs`, which has its record, and does not count it.
local function forget_all_but_count(id, claim)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count_retrying(claim.kind, claim.has_failed and -1 or 0)
end

-- Removes a claimed job from all keys but `jobs`, and counts it.
local function forget(id, claim)
  forget_all_but_count(id, claim)
  count(claim.kind, -1)
end
