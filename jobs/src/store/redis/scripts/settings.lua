-- Changes to schedules and their occurrences, to settings and nodes; and the purge. `batch.lua` says how they are called.
--
-- Needs: records, kept_lists, lanes, results, groups, batch, ended, change_jobs.

-- The beginning of the name of the setting that pauses a schedule: `values/setting.rs`.
local PAUSE_SCHEDULE = 'pause-schedule:'

local function end_pause(name)
  return redis.call('HDEL', settings, PAUSE_SCHEDULE .. name)
end

local function drop_schedule(name)
  end_pause(name)
  return redis.call('HDEL', schedules, name)
end

-- Sets the next occurrence of a schedule. Without one, the schedule ends.
local function move_schedule(name, row, following)
  if following == '' then
    drop_schedule(name)
  else
    redis.call('HSET', schedules, name, struct.pack('>I8', tonumber(following)) .. string.sub(row, 9))
  end
end

-- The row of a schedule, if its next occurrence is this one.
local function row_before(name, expected)
  local row = redis.call('HGET', schedules, name)
  return row and #row >= 8 and struct.unpack('>I8', row) == tonumber(expected) and row
end

-- Notes that a schedule or a setting has changed. Every process reads them again.
local function announce()
  values.add(meta, 'schedules', 1)
  publish('poll 0')
  return CHANGED
end

-- A schedule's row: the next occurrence, all choices except the rule, kind, rule, payload.
operations.put_schedule = function()
  local name, kind, rule, choices, payload, following = args(6)
  local identity = struct.pack('>BI2', #kind, #rule) .. kind .. rule
  local row = redis.call('HGET', schedules, name)
  local same = row and string.sub(row, 17, 16 + #identity) == identity
  if same then
    following = values.time(row, 1) or following
  end
  redis.call('HSET', schedules, name, struct.pack('>I8', tonumber(following)) .. choices .. identity .. payload)
  announce()
  return same and UNCHANGED or CHANGED
end

operations.drop_schedule = function()
  local dropped = drop_schedule(args(1))
  values.add(meta, 'schedules', 1)
  return dropped == 1 and CHANGED or UNCHANGED
end

-- Pauses a schedule: no occurrence is made of it. The setting has the time of the pause.
operations.pause_schedule = function()
  local name, time = args(2)
  if redis.call('HEXISTS', schedules, name) == 0 then
    return UNCHANGED
  end
  redis.call('HSET', settings, PAUSE_SCHEDULE .. name, time)
  return announce()
end

-- Ends a pause, and sets the next occurrence, unless the schedule has been changed or resumed meanwhile.
operations.resume_schedule = function()
  local name, expected, following = args(3)
  local row = row_before(name, expected)
  if not row or end_pause(name) == 0 then
    return UNCHANGED
  end
  move_schedule(name, row, following)
  return announce()
end

-- Inserts occurrences of a schedule as jobs, unless another process has done so. There is one result for the schedule,
-- and one for each job.
operations.occur = function()
  local name, expected, following = args(3)
  local occurrences, row = next_jobs(), row_before(name, expected)
  if not row then
    return string.rep(UNCHANGED, 1 + #occurrences)
  end
  local results = {}
  for n, job in ipairs(occurrences) do
    results[n] = insert_job(job)
  end
  move_schedule(name, row, following)
  return CHANGED .. table.concat(results)
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

  -- The hash that has a setting.
  local function hash_of(name)
    return OF_LANES[string.match(name, '^[%a-]+')] and flow or settings
  end

  -- Sets a setting of the queue: '1', a time that is not moved to an earlier one: '2'. Otherwise removes it.
  local function put_setting(name, is_set, value)
    local hash = hash_of(name)
    local before = redis.call('HGET', hash, name)
    if is_set == '1' and before == value or is_set == '0' and not before
      or is_set == '2' and (values.number(before) or -1) >= tonumber(value) then
      return UNCHANGED
    end
    if hash == flow and redis.call('HLEN', flow) == 0 then
      -- Until now no claim was counted, and places may be left.
      redis.call('HSET', lanes, CHANGED_SCOPES, '0')
    end
    if is_set ~= '0' then
      redis.call('HSET', hash, name, value)
    else
      redis.call('HDEL', hash, name)
    end
    if hash == flow then
      follow_limit(name)
    end
    return announce()
  end

  operations.put_setting = function()
    return put_setting(args(3))
  end

  -- Sets or removes a setting that has the expected value, or none. A limit is digits and names of fields. So a value with
  -- another byte than those of ASCII counts as none: a user wrote it, and a process may not be able to read it.
  operations.replace_setting = function()
    local name, is_expected, expected, is_set, value = args(5)
    local before = redis.call('HGET', hash_of(name), name)
    local is_there = is_set == '1' and before == value or is_set == '0' and not before
    if is_there then
      return CHANGED
    end
    local is_other = before and not string.find(before, '[\128-\255]')
    if is_expected == '1' and before ~= expected or is_expected == '0' and is_other then
      return UNCHANGED
    end
    return put_setting(name, is_set, value)
  end
end

-- Notes that a node is there: the time, and what is known of it.
operations.put_node = function()
  local node = args(1)
  redis.call('HSET', nodes, owner, string.format('%.0f', now) .. ' ' .. node)
  return DONE
end

-- Removes holds that are over, a page of `flow` in each call. Returns whether more pages follow. The place in `flow` is a
-- field of `lanes` whose name begins with a zero byte, as the marks of `lanes.lua`.
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

-- Removes all jobs of a list whose time is over. Returns how many there were. If a user wrote the text, and it is no list,
-- sets it aside.
local function drop_list(list)
  local _, number, bytes = kept_lists.read(list)
  local how, kind, ids = string.sub(list, 1, 1), kept_lists.kind_of(list), kept_lists.ids(list)
  if number == 0 or not due[kind] or not string.find(how, '[123w]') then
    values.set_aside('ZREM', ended, list)
    return 0
  end
  local record = tonumber(how) == AS_DEAD and redis.call('HGET', jobs, ids[1])
  local job = record and read(record)
  if job and job.ending ~= AS_DEAD then
    -- A user wrote the text.
    values.set_aside('ZREM', ended, list)
    return 0
  end
  if job then
    take_ended(ids[1], job)
    grouped.dead_is_gone(job)
    return 1
  end
  call_all('HDEL', jobs, ids)
  shorten_list(list, {}, 0)
  if kept_lists.is_counted(list) then
    kept_lists.count(kind, -number, 0 - bytes)
  end
  return number
end

-- Deletes jobs that have ended, remembered ids, and groups, whose time is over: at most 128 ids, lists and groups, and no
-- further list after 280 jobs. CHANGED: more may be left. Forgets holds that are over, and nodes that have ended.
operations.purge = function()
  -- A node that was not seen for this long is forgotten: `NODE_KEPT` in `values/node.rs`.
  local NODE_KEPT_MS = 86400000
  local past = redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, 128)
  local gone = 0
  for _, member in ipairs(past) do
    if #member == 16 then
      redis.call('ZREM', ended, member)
    elseif gone < 280 then
      gone = gone + drop_list(member)
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
  return (#past == 128 or gone >= 280 or are_groups_left or are_holds_left) and CHANGED or UNCHANGED
end
