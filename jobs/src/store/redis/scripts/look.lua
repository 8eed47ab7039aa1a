-- Looks for lanes and places that are wrong, a page each second: someone changed a key by hand, or a script failed
-- halfway.

local UNKNOWN = '\0\0\0'
local LOOKED_AT = '\0p'
local PAGE = 64

-- Whether a parked lane will come back: with the end of one of its claims, with the end of its pause, or at its time.
local function is_parked_rightly(lane, time)
  if time then
    return redis.call('ZSCORE', turn, note_of(lane, time))
  end
  local kind = string.sub(kind_of(lane), 2)
  local its_flow = redis.call('HGET', flow, 'flow:' .. kind) or kind
  local scope = string.char(#its_flow) .. its_flow .. lane
  return redis.call('ZLEXCOUNT', held, '[' .. scope, '(' .. scope .. string.rep('\255', 17)) > 0
    or redis.call('HEXISTS', flow, 'pause-part:' .. #kind .. ':' .. kind .. ':' .. string.sub(lane, #kind + 3)) == 1
end

local function look_at_lanes()
  -- The repairs need little memory. A full server must take them, or the poll fails.
  write_on_a_full_server()
  -- Each lane is in its turn, or parked for a reason.
  local cursor = redis.call('HGET', lanes, LOOKED_AT) or '0'
  local following, found = unpack(redis.call('HSCAN', lanes, cursor, 'COUNT', PAGE))
  for n = 1, #found, 2 do
    local lane = found[n]
    if string.byte(lane, 1) and string.byte(lane, 1) > 0 and #lane > #kind_of(lane) then
      local pass, is_parked, time = read_lane(found[n + 1])
      if is_parked and not is_parked_rightly(lane, time) then
        bring_back(lane)
      elseif not is_parked then
        redis.call('ZADD', turn, '0', turn_of(lane, pass))
      end
    end
  end
  if following ~= cursor then
    redis.call('HSET', lanes, LOOKED_AT, following)
  end
  -- Each member of `wait` is a job in a lane, and the lane is known.
  local many = redis.call('ZCARD', wait)
  local from = many > PAGE and micros % (many - PAGE + 1) or 0
  for _, place in ipairs(redis.call('ZRANGE', wait, from, from + PAGE - 1)) do
    local kind = #place > 25 and string.sub(kind_of(place), 2) or ''
    local id, lane = string.sub(place, -16), string.sub(place, 1, -25)
    local score = due[kind] and #place >= #kind + 26 and tonumber(redis.call('ZSCORE', due[kind], id) or 0)
    if not score or score ~= LANED + struct.unpack('>I8', place, #lane + 1) then
      redis.call('ZREM', wait, place)
    elseif redis.call('HEXISTS', lanes, lane) == 0 then
      put_in_turn(lane, latest_pass(redis.call('HGET', lanes, kind_of(lane)) or '', 1))
    end
  end
  -- A job whose score says that it is in its lane waits there. If it does not, the next claim moves it there.
  for kind, key in pairs(due) do
    local name = string.char(#kind) .. kind
    local laned = redis.call('ZCOUNT', key, LANED, '+inf')
    if laned ~= redis.call('ZLEXCOUNT', wait, '[' .. name, '(' .. name .. string.rep('\255', 18)) then
      from = laned > PAGE and micros % (laned - PAGE + 1) or 0
      local scores = {}
      for n, value in ipairs(redis.call('ZRANGEBYSCORE', key, LANED, '+inf', 'WITHSCORES', 'LIMIT', from, PAGE)) do
        if n % 2 == 1 then
          scores[n + 1] = value
        else
          scores[n - 1] = string.format('%.0f', COMING + time_of(tonumber(value)))
        end
      end
      call_all('ZADD', key, scores)
    end
  end
  -- A place is that of a claim. If it is not, the next claims compare all of them.
  many = redis.call('ZCARD', held)
  from = many > 16 and micros % (many - 15) or 0
  for _, place in ipairs(redis.call('ZRANGE', held, from, from + 15)) do
    local fence = redis.call('HGET', fences, string.sub(place, -16))
    local scope = fence and #fence >= FENCE_BYTES + HEAD_BYTES and read_fence(fence).scope or UNKNOWN
    if scope .. string.sub(place, -16) ~= place then
      redis.call('HSETNX', lanes, CHANGED_SCOPES, '0')
    end
  end
end
