-- Changes to pending jobs, to dead jobs and to settings. `batch.lua` says how they are called.
--
-- Gives: next_jobs, insert_job.
-- Needs: records, lanes, results, lane_filing, history, groups, batch, ends, ended.

local function is_claimed(id)
  return redis.call('ZSCORE', run, id) ~= false
end

-- Removes a pending job that was cancelled or replaced.
local function remove(id, job)
  note(job.kind, CANCELLED_JOB, 1)
  local score = redis.call('ZSCORE', due[job.kind], id)
  filing.leave(id, job)
  redis.call('ZREM', due[job.kind], id)
  free_key(job.key, id)
  remember(id, job.flags)
  count(job.kind, -1)
  count_retrying(job.kind, job.failures > 0 and -1 or 0)
  grouped.leave(id, job, 'cancelled')
  if is_wanted(job) then
    keep(id, job, AS_CANCELLED, score and time_of(tonumber(score)) or now, 0, '', now + WANTED_KEPT_MS)
  else
    redis.call('HDEL', jobs, id)
  end
end

-- The pending job with this id, or nil.
local function pending(id)
  local record = redis.call('HGET', jobs, id)
  if not record or is_claimed(id) then
    return nil
  end
  local job = read(record)
  if not job or has(job.flags, ENDED) then
    return nil
  end
  return job
end

-- The id of the job that has this key, and the job. Nil if there is none, or if its record cannot be read.
local function holder_of(key)
  local id = redis.call('HGET', keys, key)
  local record = id and redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not job or job.key ~= key then
    return nil
  end
  return id, job
end

-- The same, if the job is pending.
local function pending_holder_of(key)
  local id, job = holder_of(key)
  if not id or is_claimed(id) then
    return nil
  end
  return id, job
end

-- The result of an operation that was not done because this job has the key.
local function key_taken_by(id, key)
  local detail = id .. key
  return KEY_TAKEN .. struct.pack('>I2', #detail) .. detail
end

-- The burst of a debounced job: when its first job was inserted, and how long after that it is due at the latest. It is
-- the first section of an extra: see `values/job.rs`. Nil if the job has none.
local function burst_of(job)
  if has(job.flags, EXTRA) and string.byte(job.payload, 5) == 128 and #job.payload >= 23 then
    return struct.unpack('>I8I8', job.payload, 8)
  end
end

-- The due time and the record of a debounced job that goes on with the burst of the job that it replaces. If that one
-- was tried before, its burst is over.
local function go_on_with_burst(replaced, time, record)
  local job = read(record)
  local first, at_most = burst_of(job)
  local before = replaced.attempts == 0 and burst_of(replaced)
  if not first or not before then
    return time, record
  end
  first = math.min(first, before)
  job.payload = string.sub(job.payload, 1, 7) .. struct.pack('>I8', first) .. string.sub(job.payload, 16)
  return math.min(time, first + at_most), write(job)
end

-- Inserts a job. `if_taken` says what happens if another job has its key: see `IfTaken` in `protocol.rs`.
local function insert(id, kind, time, if_taken, key, record)
  if redis.call('HEXISTS', jobs, id) == 1 then
    return KNOWN
  end
  if has(string.byte(record, 1), CALLERS_ID) and redis.call('ZSCORE', ended, id) then
    return KNOWN
  end
  local job = has(string.byte(record, 1), PARTITION) and read(record)
  local lane = job and lane_of_job(job)
  if lane then
    filing.check_keys()
  else
    learn_head(kind)
  end
  if key ~= '' then
    local holder, other = holder_of(key)
    local is_running = holder and is_claimed(holder)
    if is_running and holds_key(other) or holder and not is_running and if_taken == 'leave' then
      return key_taken_by(holder, '')
    end
    if holder and not is_running then
      if if_taken == 'replace_keeping_time' then
        local score = redis.call('ZSCORE', due[other.kind], holder)
        time = score and time_of(tonumber(score)) or time
      elseif if_taken == 'debounce' then
        time, record = go_on_with_burst(other, time, record)
      end
      remove(holder, other)
    end
    redis.call('HSET', keys, key, id)
  end
  redis.call('HSET', jobs, id, record)
  enqueue(kind, id, time, 0, lane)
  count(kind, 1)
  note(kind, INSERTED_JOB, 1)
  return INSERTED
end

-- The next jobs in the arguments: their number, and six arguments for each.
local function next_jobs()
  local found = {}
  for n = 1, tonumber(args(1)) do
    found[n] = { args(6) }
  end
  return found
end

-- Inserts such a job.
local function insert_job(job)
  local id, kind, time, if_taken, key, record = unpack(job)
  return insert(id, kind, tonumber(time), if_taken, key, record)
end

-- Inserts one job, which may have a key, or an id that the caller chose.
operations.insert = function()
  return insert_job({ args(6) })
end

-- Cancels a pending job. If the job is claimed, stores a request to cancel it, which its owner's poll finds.
operations.cancel = function()
  local id = args(1)
  if is_claimed(id) then
    redis.call('SADD', cancel_requested, id)
    is_any_cancel_requested = true
    publish('poll 0')
    return RUNNING
  end
  local job = pending(id)
  if not job then
    return GONE
  end
  remove(id, job)
  return CANCELLED
end

operations.cancel_key = function()
  local id, job = pending_holder_of(args(1))
  if not id then
    return UNCHANGED
  end
  remove(id, job)
  return CHANGED
end

local function reschedule(id, time)
  local job = id and pending(id)
  if not job then
    return UNCHANGED
  end
  filing.leave(id, job)
  enqueue(job.kind, id, time, job.interruptions, lane_of_job(job))
  return CHANGED
end

operations.reschedule = function()
  local id, time = args(2)
  return reschedule(id, tonumber(time))
end

operations.reschedule_key = function()
  local key, time = args(2)
  return reschedule(pending_holder_of(key), tonumber(time))
end

-- Makes a dead job pending.
operations.retry = function()
  local id, time = args(2)
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not job or job.ending ~= AS_DEAD then
    return UNCHANGED
  end
  if job.key ~= '' then
    local holder = holder_of(job.key)
    if holder then
      return key_taken_by(holder, job.key)
    end
  end
  take_ended(id, job)
  redis.call('ZREM', ended, id)
  job.flags, job.failures, job.interruptions = job.flags - ENDED, 0, 0
  grouped.reopen(id, job)
  if job.key ~= '' then
    redis.call('HSET', keys, job.key, id)
  end
  redis.call('HSET', jobs, id, write(job))
  enqueue(job.kind, id, tonumber(time), 0, lane_of_job(job))
  count(job.kind, 1)
  return CHANGED
end

-- Deletes a job that is dead or kept.
operations.delete = function()
  local id = args(1)
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not job or not has(job.flags, ENDED) then
    return UNCHANGED
  end
  take_ended(id, job)
  grouped.dead_is_gone(job)
  remember(id, job.flags)
  return CHANGED
end

-- Inserts members, unless the group refuses them. A result for the group, and one for each member.
local function insert_members(of, its_members, refusal)
  local results = {}
  for n, job in ipairs(its_members) do
    job[6] = refusal and job[6] or grouped.record(job[6], of)
    results[n] = refusal and UNCHANGED or insert_job(job)
    if results[n] == INSERTED then
      grouped.join(job[1], of)
    end
  end
  return (refusal or CHANGED) .. table.concat(results)
end

-- Inserts a group. `callback_id`: '' if it has no callback. `outer`: the group of which the callback is a member, or ''.
operations.insert_group = function()
  local id, is_sealed, waits, keeps, callback_id, callback, outer = args(7)
  local its_members = next_jobs()
  local refusal = outer ~= '' and grouped.refusal(outer)
  if callback_id ~= '' and not refusal
    and (redis.call('HEXISTS', jobs, callback_id) == 1 or redis.call('ZSCORE', ended, callback_id)) then
    refusal = GROUP_REFUSED .. 'c'
  end
  if redis.call('HEXISTS', groups, id) == 1 then
    refusal = GROUP_REFUSED .. 'x'
  end
  if refusal then
    return insert_members(id, its_members, refusal)
  end
  if outer ~= '' then
    -- The record is behind the due time and the kind.
    local before = 9 + string.byte(callback, 9)
    callback = string.sub(callback, 1, before) .. grouped.record(string.sub(callback, before + 1), outer)
  end
  grouped.make(id, waits == '1', keeps == '1', callback_id, callback)
  if callback_id ~= '' then
    -- No other job takes the id until the group ends.
    redis.call('ZADD', ended, LATEST, callback_id)
  end
  if outer ~= '' then
    grouped.join(callback_id, outer)
  end
  local results = insert_members(id, its_members)
  if is_sealed == '1' then
    grouped.seal(id, false)
  end
  return results
end

operations.add_to_group = function()
  local id = args(1)
  return insert_members(id, next_jobs(), grouped.refusal(id))
end

operations.seal_group = function()
  return grouped.seal(args(1), false)
end

operations.cancel_group = function()
  return grouped.seal(args(1), true)
end

-- Ends the runs of members that completed: a script without groups has no operation of this name.
operations.complete_member = operations.complete

-- The same for members whose groups keep their results.
operations.complete_with_result = function()
  return operations.complete(true)
end

-- Ends a run that completed, and inserts its follow-ups. They come first, then the operation that ends the run: `complete`
-- or `complete_and_keep` with one item. The end has one result, and so has each follow-up. If the claim is no longer held,
-- nothing is inserted. The follow-ups of a member join its group, which is looked at after the operation.
operations.then_insert = function()
  -- The end frees memory, and a server accepts every write of a script after its first one. So a full server must refuse
  -- the script here. This write changes nothing.
  redis.call('ZADD', run, 'XX', 0, '')
  local follow_ups = next_jobs()
  local results = { operations[args(1)]() }
  for n, job in ipairs(follow_ups) do
    local of = results[1] == DONE and has(string.byte(job[6], 1), GROUP) and group_of_job(read(job[6]))
    job[6] = grouped.record(job[6], of)
    results[n + 1] = results[1] == DONE and insert_job(job) or UNCHANGED
    if results[n + 1] == INSERTED then
      grouped.join(job[1], of)
    end
  end
  return table.concat(results)
end
