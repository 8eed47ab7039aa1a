-- Looks for lanes and places that are wrong, a page each second: someone changed a key by hand, or a script failed
-- halfway.
--
-- Gives: UNKNOWN, look_at_lanes.
-- Needs: records, fences, lanes, lane_filing.

local UNKNOWN = '\0\0\0'
local LOOKED_AT = '\0p'
local PAGE = 64

-- Whether a lane that is not parked until a time will come back: with the end of one of its claims, or of its pause.
local function is_parked_rightly(lane)
  local kind = string.sub(kind_of(lane), 2)
  local scope = scope_of_lane(kind, lane)
  return redis.call('ZLEXCOUNT', held, '[' .. scope, '(' .. scope .. string.rep('\255', 17)) > 0
    or redis.call('HEXISTS', flow, 'pause-part:' .. #kind .. ':' .. kind .. ':' .. string.sub(lane, #kind + 3)) == 1
end

local function look_at_lanes()
  -- The repairs need little memory. A full server must take them, or the poll fails.
  write_on_a_full_server()
  -- Each lane is in its turn, or parked for a reason. One that waits for a time has a note for it.
  local cursor = values.mark(LOOKED_AT, redis.call('HGET', lanes, LOOKED_AT)) or '0'
  local following, found = unpack(redis.call('HSCAN', lanes, cursor, 'COUNT', PAGE))
  for n = 1, #found, 2 do
    local lane = found[n]
    if values.is_lane(lane) then
      local pass, is_parked, time, is_later = read_lane(found[n + 1])
      if pass == 0 and not is_later then
        values.set_aside('HDEL', lanes, lane, found[n + 1])
        put_in_turn(lane, latest_pass(redis.call('HGET', lanes, kind_of(lane)) or '', 1))
      elseif is_later and redis.call('ZLEXCOUNT', wait, '[' .. lane, '(' .. lane .. '\1') == 0 then
        -- Its last job was cancelled before it was due.
        redis.call('HDEL', lanes, lane)
        redis.call('ZREM', turn, note_of(lane, time))
      elseif time then
        if not redis.call('ZSCORE', turn, note_of(lane, time)) then
          redis.call('ZADD', turn, '0', note_of(lane, time))
        end
      elseif is_parked and not is_parked_rightly(lane) then
        bring_back(lane)
      elseif not is_parked then
        redis.call('ZADD', turn, '0', turn_of(lane, pass))
      end
    end
  end
  if following ~= cursor then
    redis.call('HSET', lanes, LOOKED_AT, following)
  end
  -- Each member of `wait` is a pending job, and the lane is known. If the lane has no due job, as far as its state says,
  -- the job is not due before.
  local many = redis.call('ZCARD', wait)
  local from = many > PAGE and micros % (many - PAGE + 1) or 0
  for _, place in ipairs(redis.call('ZRANGE', wait, from, from + PAGE - 1)) do
    local id, lane = string.sub(place, -16), string.sub(place, 1, -25)
    local kind, time = values.is_lane(lane) and string.sub(kind_of(lane), 2), values.time(place, #lane + 1)
    if not kind or not time then
      values.set_aside('ZREM', wait, place)
    elseif tonumber(redis.call('ZSCORE', due[kind], id) or 0) ~= COMING + time then
      redis.call('ZREM', wait, place)
    else
      local state = redis.call('HGET', lanes, lane)
      local _, _, until_time, is_later = read_lane(state or '')
      if not state or is_later and time < until_time then
        filing.put({ lane, time, id })
      end
    end
  end
  -- A pending job with a partition is in its lane.
  for kind, key in pairs(due) do
    local name = string.char(#kind) .. kind
    local pending, past_all = redis.call('ZCOUNT', key, COMING, '+inf'), redis.call('ZCOUNT', key, COMING + BAND, '+inf')
    if past_all > 0 or pending ~= redis.call('ZLEXCOUNT', wait, '[' .. name, '(' .. name .. string.rep('\255', 18)) then
      local low, of = COMING, pending
      if past_all > 0 then
        low, of = COMING + BAND, past_all
      end
      from = of > PAGE and micros % (of - PAGE + 1) or 0
      local found = redis.call('ZRANGEBYSCORE', key, low, '+inf', 'WITHSCORES', 'LIMIT', from, PAGE)
      for n = 1, #found, 2 do
        local record = redis.call('HGET', jobs, found[n])
        local job = record and read(record)
        local lane, time = job and lane_of_job(job), time_of(tonumber(found[n + 1]))
        if job and tonumber(found[n + 1]) ~= COMING + time or job and not lane then
          -- Another program wrote the score.
          redis.call('ZADD', key, time + (lane and COMING or 0), found[n])
        end
        if lane and not redis.call('ZSCORE', wait, place_in(lane, time, found[n])) then
          filing.put({ lane, time, found[n] })
        end
      end
    end
  end
  -- A place is that of a claim. If it is not, the next claims compare all of them.
  many = redis.call('ZCARD', held)
  from = many > 16 and micros % (many - 15) or 0
  for _, place in ipairs(redis.call('ZRANGE', held, from, from + 15)) do
    local fence = redis.call('HGET', fences, string.sub(place, -16))
    local claim = read_fence(fence)
    local scope = claim and claim.scope or UNKNOWN
    if not fence then
      -- Its claim has ended.
      redis.call('ZREM', held, place)
    elseif scope .. string.sub(place, -16) ~= place then
      redis.call('HSETNX', lanes, CHANGED_SCOPES, '0')
    end
  end
end
