-- Takes the candidates, and the jobs of lanes in turn, in their order.
--
-- A lane is visited when it is the first in its turn. Each visit claims its first job, parks the lane, or drops a
-- lane without jobs. So no claim reads past parked lanes. A lane comes to its turn when its first job is due: `lane_filing.lua`
-- leaves a note for that time. `store/lanes.rs` has the same rules for the other stores.
--
-- Needs: lanes, claim, candidates, limits, turns.

-- The most lanes that a call visits, with the members that it drops from them.
local VISITS = 256
-- More lanes have to come back.
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

  -- The limit of each partition of a kind, which the caller may not handle.
  local function each_of(kind)
    each[kind] = each[kind] or limit_in(redis.call('HGET', flow, 'limit-each:' .. kind))
    return each[kind]
  end

  -- The limits of the partitions of a kind, none of which has a setting or a rate of its own. Nil if one may have.
  local function alike(kind)
    if few and not has_own and not rate_in(each_of(kind)) then
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
      each_of(kind)
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

-- The time in a member of `wait`.
local function time_in(lane, place)
  return #place == #lane + 24 and values.time(place, #lane + 1) or 0
end

-- Leaves a note for the time of a lane that waits for a time. Returns the mark in the state of the lane. `why`: UNTIL or
-- LATER.
local function note_time(lane, why, time)
  redis.call('ZADD', turn, '0', note_of(lane, time))
  return why .. struct.pack('>I8', time)
end

-- The first job of a lane, if it is due. Drops members of `wait` that are no jobs of the lane. Also returns whether the
-- next call has to go on, and the due time of the first job if it is later.
local function first_of(kind, lane)
  while true do
    local from = last_of[lane] and '(' .. last_of[lane] or '[' .. lane
    local place, another = unpack(redis.call('ZRANGEBYLEX', wait, from, '(' .. lane .. '\1', 'LIMIT', '0', '2'))
    if not place or visits >= VISITS then
      return nil, place
    end
    local id, time = string.sub(place, -16), time_in(lane, place)
    if time > now then
      return nil, false, time
    end
    local record, is_place = redis.call('HGET', jobs, id), #place == #lane + 24
    local is_here = is_place and tonumber(redis.call('ZSCORE', due[kind], id) or 0) == COMING + time
    local key_bytes = is_here and record and key_bytes_of(record, kind)
    if key_bytes then
      return { kind = kind, lane = lane, place = place, id = id, time = time, record = record, key_bytes = key_bytes,
        next_time = another and time_in(lane, another), rank = time - (head_start[kind] or 0),
        interruptions = (struct.unpack('>I4', record, 6)) }
    end
    visits = visits + 1
    if is_place then
      redis.call('ZREM', wait, place)
    else
      values.set_aside('ZREM', wait, place)
    end
    if is_here then
      drop(kind, id, record)
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
    return note_time(lane, UNTIL, opens)
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
      local first, goes_on, later = first_of(kind, lane)
      if goes_on then
        return false
      end
      if first then
        first.pass, first.member, first.limits = pass, member, limits
        offers[kind] = first
        return first
      end
      turns.leave(kind, lane, member, later and struct.pack('>I8', pass) .. note_time(lane, LATER, later))
    end
  end
  return false
end

local function has_room_in_lanes(kind)
  return has_room(kind) and (in_lanes > 0 or not is_blocking[kind])
end

do
  -- Brings a lane back. If its weight has changed, puts it behind the lanes of that weight.
  local function look_at(lane)
    bring_back(lane)
    local kind = string.sub(kind_of(lane), 2)
    local pass, _, _, is_later = read_lane(redis.call('HGET', lanes, lane) or '')
    if is_later or not each[kind] then
      return
    end
    local weight = limit_of(kind, lane).weight
    if weight ~= math.floor(pass / ROUNDS) then
      redis.call('ZREM', turn, turn_of(lane, pass))
      put_in_turn(lane, turns.new_pass(kind, weight))
    end
  end

  -- Puts the lanes in turn that have their first due job, and brings back the others whose time has come.
  local function look_at_all(names)
    if #names > 0 then
      -- Fails here, before the first write, if the key has a wrong type.
      redis.call('HLEN', jobs)
    end
    local states, places = {}, {}
    for n, state in ipairs(get_all(lanes, names)) do
      local lane, _, _, _, is_later = names[n], read_lane(state or '')
      local kind = string.sub(kind_of(lane), 2)
      if is_later and due[kind] then
        local pass = turns.new_pass(kind, limit_of(kind, lane).weight)
        states[#states + 1], states[#states + 2] = lane, struct.pack('>I8', pass)
        places[#places + 1], places[#places + 2] = '0', turn_of(lane, pass)
      elseif state then
        look_at(lane)
      end
    end
    call_all('ZADD', turn, places)
    call_all('HSET', lanes, states)
  end

  -- Lanes that a new limit may allow to run come back, a page in each call. If the clock was set back, all come back.
  local cursor, noted = unpack(redis.call('HMGET', lanes, CHANGED_LANES, NOTED))
  cursor, noted = values.mark(CHANGED_LANES, cursor), values.mark(NOTED, noted)
  if noted and tonumber(noted) > now then
    cursor = '0'
    redis.call('HSET', lanes, NOTED, string.format('%.0f', now))
  end
  local has_more_notes = look_at_notes(look_at_all)
  if cursor then
    local following, found = unpack(redis.call('HSCAN', lanes, cursor, 'COUNT', '128'))
    for n = 1, #found, 2 do
      local lane = found[n]
      if values.is_lane(lane) then
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

  is_unfinished = cursor or has_more_notes
end

do
  -- Claims the first job of a lane, which has its turn then.
  local function serve(offer)
    local kind, lane, scope = offer.kind, offer.lane, flow_prefix(offer.kind) .. offer.lane
    local id, digits = offer.id, string.format('%.0f', offer.time)
    local fence, time = fence_of(kind, id, digits, offer.record, offer.key_bytes, scope)
    local pair = taken + taken
    local triple = pair + taken
    reply[triple + 1], reply[triple + 2], reply[triple + 3] = id, time, offer.record
    ends[pair + 1], ends[pair + 2], tokens[pair + 1], tokens[pair + 2] = lease_end, id, id, fence
    scopes[pair + 1], scopes[pair + 2] = '0', scope .. id
    taken, bytes = taken + 1, bytes + #offer.record
    ids[taken] = id
    -- A job that is too old takes no token: its handler is never called.
    local starts = not values.is_too_old(offer.record, kind, offer.key_bytes)
    count_claims(kind, scope, 1, starts and 1 or 0)
    if starts then
      take_token(offer.limits.scope, offer.limits.rate)
    end
    add(claimed_in_lanes, kind, offer.id)
    left_wait[#left_wait + 1], last_of[lane] = offer.place, offer.place
    local next_time, mark = offer.next_time, nil
    if next_time and next_time > now then
      mark = note_time(lane, LATER, next_time)
    elseif next_time then
      mark = stopped(kind, lane, offer.limits) or ''
    end
    turns.serve(offer, mark)
  end

  -- How many of these jobs the limits of a kind allow, and its caller can start soon.
  local function allowed_now(kind, most)
    if is_blocking[kind] and next(rates_of[kind]) then
      most = math.min(most, in_lanes)
    end
    return allowed(kind, most)
  end

  while taken < limit and bytes < most_bytes do
    local list, offer = first_list(), nil
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
        use_room(kind, 1)
        in_lanes = in_lanes - (is_blocking[kind] and 1 or 0)
      end
    elseif list then
      local kind = list.kind
      if not has_room(kind) or not fits(kind) or not may_run(kind) then
        list.is_passed_over = true
      else
        local by = take_from(list, #lists == 1 and not offer, allowed_now)
        if by > 0 then
          count_claims(kind, plain_scope(kind), by, by - list.too_old)
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
    local MOST = 64
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
      time = values.time(note, 2) or now
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
    return waiting_until(kind)
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
