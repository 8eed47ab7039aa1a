-- Changes to schedules, and their occurrences. `batch.lua` says how they are called.

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

-- A schedule's row: the next occurrence, the policy for missed ones, kind, rule, payload.
operations.put_schedule = function()
  local name, kind, rule, missed, payload, following = args(6)
  local identity = struct.pack('>BI2', #kind, #rule) .. kind .. rule
  local row = redis.call('HGET', schedules, name)
  local same = row and string.sub(row, 17, 16 + #identity) == identity
  if not row then
    -- An earlier version may have removed a schedule of this name, and left its pause.
    end_pause(name)
  end
  if same then
    following = values.time(row, 1) or following
  end
  row = struct.pack('>I8', tonumber(following)) .. missed .. identity .. payload
  redis.call('HSET', schedules, name, row)
  values.add(meta, 'schedules', 1)
  publish('poll 0')
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
  values.add(meta, 'schedules', 1)
  publish('poll 0')
  return CHANGED
end

-- Ends a pause, and sets the next occurrence, unless the schedule has been changed or resumed meanwhile.
operations.resume_schedule = function()
  local name, expected, following = args(3)
  local row = redis.call('HGET', schedules, name)
  if not row or #row < 8 or struct.unpack('>I8', row) ~= tonumber(expected) or end_pause(name) == 0 then
    return UNCHANGED
  end
  move_schedule(name, row, following)
  values.add(meta, 'schedules', 1)
  publish('poll 0')
  return CHANGED
end

-- Inserts occurrences of a schedule as jobs, unless another process has done so.
operations.occur = function()
  local name, expected, following, many = args(4)
  many = tonumber(many)
  local first = at
  at = at + 4 * many
  local row = redis.call('HGET', schedules, name)
  if not row or #row < 8 or struct.unpack('>I8', row) ~= tonumber(expected) then
    return UNCHANGED
  end
  for n = 1, many do
    local from = first + 4 * n - 4
    insert(ARGV[from], ARGV[from + 1], tonumber(ARGV[from + 2]), '', '', ARGV[from + 3])
  end
  move_schedule(name, row, following)
  return CHANGED
end
