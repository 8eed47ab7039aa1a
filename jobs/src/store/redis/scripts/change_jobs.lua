-- Changes to pending jobs, to dead jobs and to settings. `batch.lua` says how they are called.

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
  count(job.kind, -1)
  count_retrying(job.kind, job.failures > 0 and -1 or 0)
  grouped.leave(id, job, 'cancelled')
  if is_wanted(job) then
    keep(id, job, AS_CANCELLED, score and time_of(tonumber(score)) or now, 0, '', now + WANTED_KEPT_MS)
  else
    redis.call('HDEL', jobs, id)
    remember(id, job.flags)
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

-- Inserts one job, which may have a key, or an id that the caller chose.
operations.insert = function()
  local id, kind, time, if_taken, key, record = args(6)
  return insert(id, kind, tonumber(time), if_taken, key, record)
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

local sweep

do
  -- Up to 250 lists, the latest of each kind. Read once for the call: many operations may ask for jobs that are gone.
  local latest_lists

  -- Removes from its list a job whose record was removed by hand, if the list is among these. Returns whether it was there.
  local function sweep_lists(id)
    if not latest_lists then
      latest_lists = { kinds = {}, text = '' }
      local looks = 250
      for kind in pairs(due) do
        if looks > 0 then
          local first, final = kept_lists.range(kind)
          local lists = redis.call('ZREVRANGEBYLEX', over, final, first, 'LIMIT', 0, looks)
          latest_lists.kinds[kind] = lists
          latest_lists.text = latest_lists.text .. table.concat(lists)
          looks = looks - math.max(#lists, 1)
        end
      end
    end
    if not string.find(latest_lists.text, id, 1, true) then
      return false
    end
    for kind, lists in pairs(latest_lists.kinds) do
      local list = kept_lists.find(lists, id)
      if list then
        latest_lists = nil
        if not redis.call('ZSCORE', over, list) then
          -- An operation before this one has changed the list.
          return sweep_lists(id)
        end
        kept_lists.take(kind, list, id, 0)
        return true
      end
    end
    return false
  end

  -- Removes what is left of a job that has ended, if its record was removed by hand. Looks for it among the latest 10,000 of
  -- each kind of end, and in the latest lists. An id that is only remembered is not among them. CHANGED: there was something.
  function sweep(id)
    if not redis.call('ZSCORE', ended, id) then
      return sweep_lists(id) and CHANGED or UNCHANGED
    end
    for ending = AS_COMPLETED, AS_CANCELLED do
      local first, final = range_of(ending)
      for _, place in ipairs(redis.call('ZREVRANGEBYLEX', over, final, first, 'LIMIT', 0, 10000)) do
        if #place == 26 and string.sub(place, -16) == id then
          local ended_at = struct.unpack('>I8', string.sub(place, -24, -17))
          for kind in pairs(due) do
            redis.call('ZREM', over, places(ending, kind, ended_at, id))
          end
          redis.call('ZREM', ended, id)
          return CHANGED
        end
      end
    end
    return UNCHANGED
  end
end

-- Makes a dead job pending.
operations.retry = function()
  local id, time = args(2)
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if not record then
    sweep(id)
  end
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
  if not record then
    return sweep(id)
  end
  if not job or not has(job.flags, ENDED) then
    return UNCHANGED
  end
  take_ended(id, job)
  grouped.dead_is_gone(job)
  remember(id, job.flags)
  return CHANGED
end

do
  -- The beginnings of the names of settings that `flow` has: `values/stored_limits.rs`.
  local OF_LANES = { ['limit'] = true, ['limit-flow'] = true, ['limit-each'] = true, ['limit-part'] = true,
    ['pause-part'] = true, ['flow'] = true, ['hold'] = true, ['hold-flow'] = true, ['hold-part'] = true }

  -- Brings the lanes back that a new limit may allow to run, lets the next claim look at the weights that it may have
  -- changed, and makes every process claim.
  local function follow_limit(name)
    local word, rest = string.match(name, '^([%a-]+):?(.*)$')
    if word == 'limit-part' or word == 'pause-part' or word == 'hold-part' then
      local bytes, both = string.match(rest, '^(%d+):(.*)$')
      bytes = tonumber(bytes) or 0
      local lane = lane_of(string.sub(both or '', 1, bytes), string.sub(both or '', bytes + 2))
      bring_back(lane)
      if word == 'limit-part' and redis.call('HEXISTS', lanes, lane) == 1 then
        redis.call('ZADD', turn, '0', note_of(lane, 0))
        redis.call('HSET', lanes, NOTED, string.format('%.0f', now))
      end
    elseif word == 'limit-each' then
      redis.call('HSET', lanes, CHANGED_LANES, '0')
    elseif word == 'flow' then
      redis.call('HSET', lanes, CHANGED_SCOPES, '0')
    end
  end

  -- Sets a setting of the queue: '1', a time that is not moved to an earlier one: '2'. Otherwise removes it.
  operations.put_setting = function()
    local name, is_set, value = args(3)
    local is_of_lanes = OF_LANES[string.match(name, '^[%a-]+')]
    local settings = is_of_lanes and flow or settings
    local before = redis.call('HGET', settings, name)
    if is_set == '1' and before == value or is_set == '0' and not before
      or is_set == '2' and (values.number(before) or -1) >= tonumber(value) then
      return UNCHANGED
    end
    if is_of_lanes and redis.call('HLEN', flow) == 0 then
      -- Until now no claim was counted, and places may be left.
      redis.call('HSET', lanes, CHANGED_SCOPES, '0')
    end
    if is_set ~= '0' then
      redis.call('HSET', settings, name, value)
    else
      redis.call('HDEL', settings, name)
    end
    if is_of_lanes then
      follow_limit(name)
    end
    values.add(meta, 'schedules', 1)
    publish('poll 0')
    return CHANGED
  end
end

-- Notes that a node is there: the time, and what is known of it.
operations.put_node = function()
  local node = args(1)
  redis.call('HSET', nodes, owner, string.format('%.0f', now) .. ' ' .. node)
  return DONE
end

-- A node that was not seen for this long is forgotten: `NODE_KEPT` in `values/node.rs`.
local NODE_KEPT_MS = 86400000

-- Removes holds that are over, a page of `flow` in each call. Returns whether more pages follow. The place in `flow` is a
-- field of `lanes` whose name begins with a zero byte, as the marks of `places.lua`.
local function forget_holds()
  local PURGED_AT = '\0q'
  if redis.call('HLEN', flow) == 0 then
    return false
  end
  local cursor = values.mark(PURGED_AT, redis.call('HGET', lanes, PURGED_AT)) or '0'
  local following, found = unpack(redis.call('HSCAN', flow, cursor, 'COUNT', '128'))
  for n = 1, #found, 2 do
    local word = string.match(found[n], '^[%a-]+')
    if (word == 'hold' or word == 'hold-flow' or word == 'hold-part') and (values.number(found[n + 1], LATEST) or 0) <= now then
      redis.call('HDEL', flow, found[n])
    end
  end
  if following ~= cursor then
    redis.call('HSET', lanes, PURGED_AT, following)
  end
  return following ~= '0'
end

-- Deletes jobs that have ended, remembered ids, and groups, whose time is over: at most 128 of each, and at most eight
-- lists. CHANGED: more may be left. Forgets holds that are over, and nodes that have ended.
operations.purge = function()
  local gone = redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, 128)
  local lists = 0
  for n, record in ipairs(get_all(jobs, gone)) do
    local job = record and read(record)
    if #gone[n] > 16 then
      lists = lists + 1
      if lists <= 8 then
        kept_lists.drop(gone[n])
      end
    elseif job and has(job.flags, ENDED) then
      drop_ended(gone[n], job)
      grouped.dead_is_gone(job)
    elseif #gone[n] < 16 then
      values.set_aside('ZREM', ended, gone[n])
    else
      redis.call('ZREM', ended, gone[n])
    end
  end
  local are_groups_left, are_holds_left = grouped.purge(), forget_holds()
  local found = redis.call('HGETALL', nodes)
  for n = 1, #found, 2 do
    local seen = values.number(string.match(found[n + 1], '^(%d+) '), LATEST)
    if not seen or seen + NODE_KEPT_MS < now then
      redis.call('HDEL', nodes, found[n])
    end
  end
  return (#gone == 128 or lists > 8 or are_groups_left or are_holds_left) and CHANGED or UNCHANGED
end
