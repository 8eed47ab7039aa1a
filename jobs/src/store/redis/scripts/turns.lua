-- The turns of the lanes in a claim: which lane is next, and the places that the claim changes.
--
-- The lanes of a kind that have one weight take turns in rounds: each has one turn in a round. The weights take turns by
-- their shares, as in WF2Q (Bennett and Zhang, 1996); `store/turns.rs` has the same rule for the other stores, and says
-- what follows from it. `lanes` has three numbers for each weight of a kind: the weight, the round of its lane that was
-- served last, and its lag. They stay when no lane of the weight is in turn: one that is parked comes back in its round,
-- and a new one must not begin in an earlier round.
--
-- The places are read by the page and written together: a command for each would take most of the time of a claim.
--
-- Gives: turns.
-- Needs: lanes.

local turns = {}
do
  -- How many lanes are read at once.
  local PAGE = 32
  -- Rounding makes no lag less than zero.
  local EPSILON = 1e-9
  -- By kind: its weights, each with its page of `turn`, the states of the lanes there, and the lanes that were served.
  local kinds_in_turn = {}
  -- The new pass of each lane that was served and is in turn, the states of those that are parked, those without further
  -- jobs, and the places that they have left.
  local passes, parked, drained, left = {}, {}, {}, {}

  -- A weight of a kind. `many`: how many of its lanes are in turn, or nil if they are not counted. `gone`: how many
  -- places of `turn` are left and not removed yet. `pass`: that of the lane that was served last.
  local function new_weight(its, weight, pass, lag)
    local found = {
      weight = weight, pass = pass, lag = lag, many = 0, gone = 0, at = 1, members = {}, is_last = true, served = {},
    }
    its.of[weight] = found
    its.list[#its.list + 1] = found
    return found
  end

  local function read_kind(kind)
    local its = kinds_in_turn[kind]
    if not its then
      local name = string.char(#kind) .. kind
      its = { name = name, of = {}, list = {}, numbers = redis.call('HGET', lanes, name) or '' }
      kinds_in_turn[kind] = its
      for _, found in ipairs(rounds_in(its.numbers)) do
        new_weight(its, found.weight, found.pass, found.lag)
      end
      if its.numbers ~= '' and #its.list == 0 then
        values.set_aside('HDEL', lanes, name, its.numbers)
      end
    end
    return its
  end

  local function weight_of(its, weight)
    return its.of[weight] or new_weight(its, weight, latest_pass(its.numbers, weight), 0)
  end

  -- The pass of a new lane: it waits for one turn of each other lane of its weight.
  turns.new_pass = function(kind, weight)
    return weight_of(read_kind(kind), weight).pass + 1
  end

  local function pass_in(its, member)
    return (struct.unpack('>I8', member, #its.name + 1))
  end

  -- A page of places between two bounds, and whether it is the last one. What is no place is set aside.
  local function read_places(its, from, to)
    local found, places = redis.call('ZRANGEBYLEX', turn, from, to, 'LIMIT', '0', PAGE), {}
    for _, member in ipairs(found) do
      local lane = its.name .. string.sub(member, #its.name + 9)
      if #member > #its.name + 8 and values.is_lane(lane) and pass_in(its, member) < 2 ^ 53 then
        places[#places + 1] = member
      else
        values.set_aside('ZREM', turn, member)
      end
    end
    if #places == 0 and #found == PAGE then
      return read_places(its, '(' .. found[PAGE], to)
    end
    return places, #found < PAGE
  end

  -- The place before those of a weight.
  local function beginning(its, weight)
    return its.name .. struct.pack('>I8', weight * ROUNDS)
  end

  -- Reads the first lanes of each weight, when the claim has put all lanes in turn that come back.
  local function read_lanes(kind)
    local its = read_kind(kind)
    local from = not its.is_read and '[' .. its.name
    its.is_read = true
    while from do
      local members, is_end = read_places(its, from, '(' .. its.name .. '\255')
      local last
      for _, member in ipairs(members) do
        last = weight_of(its, math.floor(pass_in(its, member) / ROUNDS))
        last.members[#last.members + 1], last.many = member, last.many + 1
      end
      from = nil
      if not is_end then
        last.is_last, last.many = false, nil
        from = '[' .. beginning(its, last.weight + 1)
      end
    end
    return its
  end

  local function many_of(its, found)
    if not found.many then
      local from, to = beginning(its, found.weight), beginning(its, found.weight + 1)
      found.many = redis.call('ZLEXCOUNT', turn, '[' .. from, '(' .. to) - found.gone
    end
    return found.many
  end

  -- The weights with lanes in turn, with the share of each. If weights have left or come, the lags of those behind, or of
  -- those ahead, shrink until the sum of all is zero. If there is one alone, its lanes are not counted.
  local function settle_lags(its)
    local some, total, behind, ahead = {}, 0, 0, 0
    for _, found in ipairs(its.list) do
      if found.many ~= 0 then
        some[#some + 1] = found
      end
    end
    if #some == 1 then
      some[1].share, some[1].lag = 1, 0
      return some
    end
    for _, found in ipairs(some) do
      -- A place that someone has changed by hand may have no weight.
      found.share = math.max(found.weight, 1) * many_of(its, found)
      total = total + found.share
      behind, ahead = behind + math.max(found.lag, 0), ahead - math.min(found.lag, 0)
    end
    for _, found in ipairs(some) do
      found.share = found.share / total
      local all = found.lag > 0 and behind or ahead
      found.lag = all > 0 and found.lag * math.min(behind, ahead) / all or 0
    end
    return some
  end

  -- The weight whose turn it is.
  local function next_weight(its)
    local best, earliest, behind
    for _, found in ipairs(settle_lags(its)) do
      if not found.is_over then
        local time = (1 - found.lag) / found.share
        if found.lag >= -EPSILON and (not best or time < earliest) then
          best, earliest = found, time
        end
        behind = (not behind or found.lag > behind.lag) and found or behind
      end
    end
    return best or behind
  end

  -- Reads the next page of a weight, if the one before is used up.
  local function read_page(its, found)
    if found.at > #found.members and not found.is_last then
      local from, to = '(' .. found.members[#found.members], '(' .. beginning(its, found.weight + 1)
      found.members, found.is_last = read_places(its, from, to)
      found.at, found.lanes = 1, nil
    end
    if not found.lanes then
      found.lanes = {}
      for n, member in ipairs(found.members) do
        found.lanes[n] = its.name .. string.sub(member, #its.name + 9)
      end
      found.states = get_all(lanes, found.lanes)
    end
  end

  -- The place, the lane and the pass of the next lane of a kind in turn, and whether it is parked or has another place.
  turns.next = function(kind)
    local its = read_lanes(kind)
    while true do
      local found = next_weight(its)
      if not found then
        return nil
      end
      its.current = found
      read_page(its, found)
      local member, first = found.members[found.at], found.served[1]
      local pass = member and pass_in(its, member)
      if first and (not member or first.pass < pass) then
        table.remove(found.served, 1)
        return first.member, first.lane, first.pass, passes[first.lane] ~= first.pass
      end
      if member then
        local lane, state = found.lanes[found.at], found.states[found.at]
        found.at = found.at + 1
        local its_pass, is_parked = read_lane(state and #state >= 8 and state or struct.pack('>I8', pass))
        return member, lane, pass, is_parked or (passes[lane] or its_pass) ~= pass
      end
      found.is_over = true
    end
  end

  -- A lane with this weight is in turn no longer.
  local function leaves(found)
    if found.many then
      found.many = found.many - 1
      found.lag = found.many > 0 and found.lag or math.min(found.lag, 0)
    end
  end

  -- The lane of an offer has its turn. `mark`: nil if it has no further job; the mark of its state if it may not run; or
  -- ''. Its weight may have changed.
  turns.serve = function(offer, mark)
    local its, lane = kinds_in_turn[offer.kind], offer.lane
    local found, of = its.current, weight_of(its, offer.limits.weight)
    for _, other in ipairs(settle_lags(its)) do
      other.lag = other.lag + other.share - (other == found and 1 or 0)
    end
    found.pass, its.has_served = math.max(found.pass, offer.pass), true
    -- A lane that waited with a suspect may be behind. It has saved up no turns.
    local next_pass = of.pass + 1
    left[#left + 1], passes[lane] = offer.member, mark == '' and next_pass or nil
    if mark ~= '' or of ~= found then
      found.gone = found.gone + (found.many and 0 or 1)
      leaves(found)
    end
    if mark == '' then
      of.many = of == found and found.many or many_of(its, of) + 1
      of.served[#of.served + 1] = { member = turn_of(lane, next_pass), lane = lane, pass = next_pass }
      of.is_over = false
    elseif mark then
      parked[lane] = struct.pack('>I8', next_pass) .. mark
    else
      drained[#drained + 1] = lane
    end
  end

  -- Drops a place that is not that of its lane any more.
  turns.drop = function(kind, member)
    redis.call('ZREM', turn, member)
    leaves(kinds_in_turn[kind].current)
  end

  -- Takes a lane out of its turn, with its state, or without one if it has no jobs.
  turns.leave = function(kind, lane, member, state)
    passes[lane] = nil
    if state then
      redis.call('HSET', lanes, lane, state)
    else
      redis.call('HDEL', lanes, lane)
    end
    turns.drop(kind, member)
  end

  -- Writes the new places before it removes the old ones. So if the script fails in between, no lane is without a place.
  -- A lane may have two places then, or one although it is parked. A later claim drops a place that is not that of its
  -- lane.
  turns.write = function()
    local fields, places = {}, {}
    for lane, pass in pairs(passes) do
      fields[#fields + 1], fields[#fields + 2] = lane, struct.pack('>I8', pass)
      places[#places + 1], places[#places + 2] = '0', turn_of(lane, pass)
    end
    for _, its in pairs(kinds_in_turn) do
      if its.has_served then
        local numbers = {}
        for _, found in ipairs(its.list) do
          numbers[#numbers + 1] = string.format('%d %.0f %.9f', found.weight, found.pass % ROUNDS, found.lag)
        end
        fields[#fields + 1], fields[#fields + 2] = its.name, table.concat(numbers, ' ')
      end
    end
    for lane, state in pairs(parked) do
      fields[#fields + 1], fields[#fields + 2] = lane, state
    end
    call_all('ZADD', turn, places)
    call_all('HSET', lanes, fields)
    call_all('HDEL', lanes, drained)
    call_all('ZREM', turn, left)
    parked, drained, left = {}, {}, {}
  end
end
