-- Takes the candidates, and the jobs of lanes in turn, in their order.
--
-- A lane is visited when it is the first in its turn. Each visit claims its first job, parks the lane, or drops a
-- lane without jobs. So no claim reads past parked lanes. `store/lanes.rs` has the same rules for the other stores.

-- The most lanes that a call visits, with the members that it drops from them.
local VISITS = 256
-- More lanes have to come back, or more jobs to move to their lanes.
local is_unfinished

-- The limit, the rate and the weight of a lane, and whether it is paused or held.
local limit_of
do
  local FEW = 64
  -- All fields of `flow`, if they are few. Then the limits of many lanes need no command. `has_own`: some partition has
  -- settings of its own.
  local limits_of, few, has_own = {}, nil, false
  if redis.call('HLEN', flow) <= FEW then
    few = {}
    local found = redis.call('HGETALL', flow)
    for n = 1, #found, 2 do
      few[found[n]] = found[n + 1]
      has_own = has_own or string.find(found[n], '-part:', 1, true)
    end
  end

  -- The limits of the partitions of a kind, none of which has a setting or a rate of its own. Nil if one may have.
  local function alike(kind)
    if few and not has_own and not rate_in(each[kind]) then
      local name = '\0' .. kind
      limits_of[name] = limits_of[name] or {
        most = most_of(each[kind]), weight = math.max(tonumber(each[kind].weight) or 1, 1), held_until = 0,
      }
      return limits_of[name]
    end
  end

  limit_of = function(kind, lane)
    limits_of[lane] = limits_of[lane] or alike(kind)
    if not limits_of[lane] then
      local name = #kind .. ':' .. kind .. ':' .. string.sub(lane, #kind + 3)
      local scope, pause, hold = 'limit-part:' .. name, 'pause-part:' .. name, 'hold-part:' .. name
      local own, held
      if few then
        own, pause, held = few[scope], few[pause], few[hold]
      else
        own, pause, held = unpack(redis.call('HMGET', flow, scope, pause, hold))
      end
      own = limit_in(own)
      local weight = tonumber(own.weight) or tonumber(each[kind].weight) or 1
      limits_of[lane] = {
        most = tonumber(own.running) or most_of(each[kind]), weight = math.max(weight, 1), is_paused = pause,
        held_until = hold_in(hold, held), rate = rate_in(own) or rate_in(each[kind]), scope = scope,
      }
    end
    return limits_of[lane]
  end
end

local visits, offers = 0, {}
-- The members of `wait` whose jobs this call claims: they are removed together. And the last such member of each lane.
local left_wait, last_of = {}, {}

local function drop_senseless(kind, id, record)
  add(empty, kind, id)
  senseless[#senseless + 1] = id
  senseless_records[#senseless] = record
end

-- The first job of a lane, and whether it is the only one. Drops members of `wait` that are no jobs of the lane, and
-- jobs that are not due because the clock was set back. Also returns whether the next call has to go on.
local function first_of(kind, lane)
  while true do
    local from = last_of[lane] and '(' .. last_of[lane] or '[' .. lane
    local place, another = unpack(redis.call('ZRANGEBYLEX', wait, from, '(' .. lane .. '\1', 'LIMIT', '0', '2'))
    if not place or visits >= VISITS then
      return nil, place
    end
    local id, time = string.sub(place, -16), 0
    if #place == #lane + 24 then
      time = struct.unpack('>I8', place, #lane + 1)
    end
    local record = redis.call('HGET', jobs, id)
    local is_here = tonumber(redis.call('ZSCORE', due[kind], id) or 0) == LANED + time
    local key_bytes = is_here and record and key_bytes_of(record, kind)
    if key_bytes and time <= now then
      return { kind = kind, lane = lane, place = place, id = id, time = time, record = record, key_bytes = key_bytes,
        is_last = not another, rank = time - (head_start[kind] or 0), interruptions = (struct.unpack('>I4', record, 6)) }
    end
    visits = visits + 1
    redis.call('ZREM', wait, place)
    if key_bytes then
      redis.call('ZADD', due[kind], string.format('%.0f', COMING + time), id)
    elseif is_here and record then
      drop_senseless(kind, id, record)
    elseif is_here then
      add(empty, kind, id)
    end
  end
end

-- The mark in the state of a lane that may not run. Nil if it may.
local function stopped(kind, lane, limits)
  if limits.is_paused or limits.most < math.huge and running_of(flow_prefix(kind) .. lane) >= limits.most then
    return PARKED
  end
  local opens = math.max(limits.held_until, token_time(limits.scope, limits.rate))
  if opens > now then
    redis.call('HSET', lanes, NOTED, string.format('%.0f', now))
    redis.call('ZADD', turn, '0', note_of(lane, opens))
    return UNTIL .. struct.pack('>I8', opens)
  end
end

-- The first job of the lane of a kind whose turn it is. False if no lane may run.
local function offer_of(kind)
  if offers[kind] ~= nil then
    return offers[kind]
  end
  offers[kind] = false
  while visits < VISITS do
    local member, lane, pass, is_elsewhere = turns.next(kind)
    if not member then
      return false
    end
    visits = visits + 1
    local limits = limit_of(kind, lane)
    local mark = not is_elsewhere and stopped(kind, lane, limits)
    if is_elsewhere then
      turns.drop(kind, member)
    elseif mark then
      turns.leave(kind, lane, member, struct.pack('>I8', pass) .. mark)
    else
      local first, goes_on = first_of(kind, lane)
      if goes_on then
        return false
      end
      if first then
        first.pass, first.member, first.limits = pass, member, limits
        offers[kind] = first
        return first
      end
      turns.leave(kind, lane, member)
    end
  end
  return false
end

local function has_room_in_lanes(kind)
  return has_room(kind) and (in_lanes > 0 or not is_blocking[kind])
end

do
  -- The most jobs that a call moves to their lanes.
  local MOVED = 256

  -- Moves due jobs of a kind to their lanes, at most `most`. Returns how many it moved.
  local function move(kind, most)
    local found = redis.call('ZRANGEBYSCORE', due[kind], COMING, string.format('%.0f', COMING + now), 'WITHSCORES',
      'LIMIT', 0, most)
    local known = {}
    -- Records may be large, so few are read at once.
    for from = 1, #found, 2 * AHEAD do
      local some, places, scores, unknown = {}, {}, {}, {}
      for n = from, math.min(from + 2 * AHEAD - 1, #found), 2 do
        some[#some + 1] = found[n]
      end
      for n, record in ipairs(redis.call('HMGET', jobs, unpack(some))) do
        local id, time = some[n], time_of(tonumber(found[from + 2 * n - 1]))
        local key_bytes = record and #id == 16 and key_bytes_of(record, kind)
        if not record then
          add(empty, kind, id)
        elseif not key_bytes then
          drop_senseless(kind, id, record)
        else
          local high, low = string.byte(record, 16, 17)
          local errors_bytes = high * 256 + low
          local lane = lane_of(kind, partition_in(record, HEAD_BYTES + #kind + key_bytes + errors_bytes + 1))
          if not known[lane] then
            unknown[#unknown + 1], known[lane] = lane, true
          end
          places[#places + 1], places[#places + 2] = '0', place_in(lane, time, id)
          scores[#scores + 1], scores[#scores + 2] = string.format('%.0f', LANED + time), id
        end
      end
      for n, state in ipairs(get_all(lanes, unknown)) do
        if not state then
          put_in_turn(unknown[n], turns.new_pass(kind, limit_of(kind, unknown[n]).weight))
        end
      end
      if #places > 0 then
        redis.call('ZADD', wait, unpack(places))
        redis.call('ZADD', due[kind], unpack(scores))
      end
    end
    return #found / 2
  end

  -- Brings a lane back. If its weight has changed, puts it behind the lanes of that weight.
  local function look_at(lane)
    bring_back(lane)
    local kind = string.sub(kind_of(lane), 2)
    local pass = each[kind] and read_lane(redis.call('HGET', lanes, lane) or '')
    local weight = pass and limit_of(kind, lane).weight
    if weight and weight ~= math.floor(pass / ROUNDS) then
      redis.call('ZREM', turn, turn_of(lane, pass))
      put_in_turn(lane, turns.new_pass(kind, weight))
    end
  end

  -- Lanes that a new limit may allow to run come back, a page in each call. If the clock was set back, all come back.
  local cursor, noted = unpack(redis.call('HMGET', lanes, CHANGED_LANES, NOTED))
  if noted and tonumber(noted) > now then
    cursor = '0'
    redis.call('HSET', lanes, NOTED, string.format('%.0f', now))
  end
  local has_more_notes = noted and look_at_notes(look_at)
  if cursor then
    local following, found = unpack(redis.call('HSCAN', lanes, cursor, 'COUNT', '128'))
    for n = 1, #found, 2 do
      local lane = found[n]
      if string.byte(lane, 1) and string.byte(lane, 1) > 0 and #lane > #kind_of(lane) then
        look_at(lane)
      end
    end
    cursor = following ~= '0'
    if cursor then
      redis.call('HSET', lanes, CHANGED_LANES, following)
    else
      redis.call('HDEL', lanes, CHANGED_LANES)
    end
  end

  local left_to_move = MOVED
  for n = at, #ARGV do
    if left_to_move > 0 and has_room(ARGV[n]) then
      left_to_move = left_to_move - move(ARGV[n], left_to_move)
    end
  end

  is_unfinished = cursor or has_more_notes or left_to_move <= 0
end

do
  -- Claims the first job of a lane, which has its turn then.
  local function serve(offer)
    local kind, lane, scope = offer.kind, offer.lane, flow_prefix(offer.kind) .. offer.lane
    local id, time = offer.id, string.format('%.0f', offer.time)
    local head = sub(offer.record, 1, HEAD_BYTES + #kind + offer.key_bytes)
    local has_key = offer.key_bytes > 0 and redis.call('HGET', keys, sub(head, HEAD_BYTES + #kind + 1)) == id
    local pair = taken + taken
    local triple = pair + taken
    reply[triple + 1], reply[triple + 2], reply[triple + 3] = id, has_key and time .. 'k' or time, offer.record
    ends[pair + 1], ends[pair + 2] = lease_end, id
    tokens[pair + 1], tokens[pair + 2] = id, write_fence(fence_number, time, has_key, head, scope)
    scopes[pair + 1], scopes[pair + 2] = '0', scope .. id
    taken, bytes = taken + 1, bytes + #offer.record
    ids[taken] = id
    count_claims(kind, scope, 1)
    take_token(offer.limits.scope, offer.limits.rate)
    add(claimed_in_lanes, kind, offer.id)
    left_wait[#left_wait + 1], last_of[lane] = offer.place, offer.place
    turns.serve(offer, not offer.is_last and (stopped(kind, lane, offer.limits) or '') or nil)
  end

  local function takes(kind, by)
    room[kind] = room[kind] - by
    blocking = blocking - (is_blocking[kind] and by or 0)
    plain = plain - (head_start[kind] and 0 or by)
  end

  while taken < limit and bytes < most_bytes do
    local list, offer
    for _, its in ipairs(lists) do
      set_rank(its)
      if its.rank and not its.is_passed_over and (not list or its.rank < list.rank) then
        list = its
      end
    end
    for n = at, #ARGV do
      local kind = ARGV[n]
      local its = has_room_in_lanes(kind) and may_run(kind) and offer_of(kind)
      if its and (not offer or its.rank < offer.rank) then
        offer = its
      end
    end
    if offer and (not list or offer.rank < list.rank) then
      local kind, interruptions = offer.kind, offer.interruptions
      offers[kind] = nil
      if interruptions > 0 and not admits(interruptions) then
        -- The lane waits with its suspect, and keeps its turn.
        waits = 1
      else
        if interruptions > 0 then
          take_note(interruptions)
        end
        serve(offer)
        takes(kind, 1)
        in_lanes = in_lanes - (is_blocking[kind] and 1 or 0)
      end
    elseif list then
      local kind, interruptions = list.kind, list.interruptions
      if not has_room(kind) or not fits(kind) or not may_run(kind) then
        list.is_passed_over = true
      elseif interruptions > 0 and not admits(interruptions) then
        list.is_passed_over = true
        waits = 1
      else
        local most, before = 1, taken
        if #lists == 1 and not offer and interruptions == 0 then
          most = math.min(limit - taken, room[kind], #list.ids - list.cursor + 1)
          most = math.min(most, is_blocking[kind] and blocking or most, head_start[kind] and most or plain)
          if is_blocking[kind] and next(rates_of[kind]) then
            most = math.min(most, in_lanes)
          end
          most = allowed(kind, most)
        end
        take(list, most)
        local by = taken - before
        if by > 0 then
          count_claims(kind, plain_scope(kind), by)
          takes(kind, by)
          in_lanes = in_lanes - (is_blocking[kind] and next(rates_of[kind]) and by or 0)
        end
      end
    else
      break
    end
  end
end

call_all('ZREM', wait, left_wait)
turns.write()
keep_tokens()

do
  -- The first lanes that are parked until a time.
  local waiting

  -- When the first lane of a kind comes back that is parked until a time. If too many others come before it, the time of the
  -- last of these.
  local function waiting_until(kind)
    local MOST = 16
    if not waiting then
      -- The search for the offer of a kind may park lanes, so it comes first, for all kinds.
      for n = at, #ARGV do
        if has_room_in_lanes(ARGV[n]) and opens_at(ARGV[n]) < math.huge then
          offer_of(ARGV[n])
        end
      end
      waiting = redis.call('ZRANGEBYLEX', turn, '[\0', '(\1', 'LIMIT', '0', MOST)
    end
    local name, time = string.char(#kind) .. kind, nil
    for _, note in ipairs(waiting) do
      time = struct.unpack('>I8', note, 2)
      if string.sub(note, 10, 9 + #name) == name then
        return time
      end
    end
    return #waiting == MOST and time or math.huge
  end

  -- When the next job with a partition is due that may be claimed.
  next_in_lanes = function(kind)
    if not has_room_in_lanes(kind) then
      return math.huge
    end
    if offer_of(kind) then
      return now
    end
    local earliest = waiting_until(kind)
    local coming = redis.call('ZRANGEBYSCORE', due[kind], COMING, '(' .. LANED, 'WITHSCORES', 'LIMIT', '0', '1')
    return math.min(earliest, (tonumber(coming[2]) or math.huge) - COMING)
  end
end

-- Says that a claim waits for a place, if one does. Returns when the next job is due.
at_end = function(earliest)
  -- The search for the next job may have met other rates.
  keep_tokens()
  if is_any_full then
    redis.call('HSETNX', lanes, WAITED_FOR, '1')
  end
  if is_comparing or is_unfinished or visits >= VISITS then
    return now
  end
  return earliest
end
