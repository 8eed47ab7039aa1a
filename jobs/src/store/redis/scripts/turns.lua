-- The turns of the lanes in a claim: which lane is next, and the places that the claim changes.
--
-- The places are read by the page and written together: a command for each would take most of the time of a claim.

-- By kind, the pass of the lane that was served last; and the kinds of which this call has served a lane.
local presents, has_served = {}, {}

local function present_of(kind)
  local name = string.char(#kind) .. kind
  if not presents[name] then
    presents[name] = tonumber(redis.call('HGET', lanes, name)) or 0
  end
  return presents[name], name
end

local turns = {}
do
  -- How many lanes are read at once.
  local PAGE = 32
  -- For each kind: a page of `turn` with the states of its lanes; and the lanes that were served, by their new places.
  local pages, served = {}, {}
  -- The new pass of each lane that was served and is in turn, and the places that it has left.
  local passes, left = {}, {}

  local function page_of(kind)
    local page = pages[kind] or { at = 1, from = '[' .. string.char(#kind) .. kind, members = {}, lanes = {}, states = {} }
    pages[kind] = page
    if page.at > #page.members and not page.is_last then
      local name = string.char(#kind) .. kind
      page.members = redis.call('ZRANGEBYLEX', turn, page.from, '(' .. name .. '\255', 'LIMIT', '0', PAGE)
      page.at, page.is_last, page.lanes = 1, #page.members < PAGE, {}
      for n, member in ipairs(page.members) do
        page.lanes[n] = name .. string.sub(member, #name + 9)
      end
      page.states = get_all(lanes, page.lanes)
      page.from = '(' .. (page.members[#page.members] or '')
    end
    return page
  end

  -- The place, the lane and the pass of the next lane of a kind in turn, and whether it is parked or has another place.
  turns.next = function(kind)
    local page, first = page_of(kind), served[kind] and served[kind][1]
    local member = page.members[page.at]
    if first and (not member or first.member <= member) then
      table.remove(served[kind], 1)
      return first.member, first.lane, first.pass, passes[first.lane] ~= first.pass
    end
    if not member then
      return nil
    end
    local lane, state, pass = page.lanes[page.at], page.states[page.at], 0
    page.at = page.at + 1
    if #member > #kind + 9 then
      pass = struct.unpack('>I8', member, #kind + 2)
    end
    local its_pass, is_parked = read_lane(state or struct.pack('>I8', pass))
    return member, lane, pass, is_parked or (passes[lane] or its_pass) ~= pass
  end

  -- Gives a lane that was served its next place.
  turns.put_behind = function(kind, lane, member, pass)
    left[#left + 1], passes[lane] = member, pass
    local list, its = served[kind] or {}, { member = turn_of(lane, pass), lane = lane, pass = pass }
    served[kind] = list
    local n = #list
    while n > 0 and list[n].member > its.member do
      n = n - 1
    end
    table.insert(list, n + 1, its)
  end

  -- Takes a lane out of its turn, with its state, or without one if it has no jobs.
  turns.leave = function(lane, member, state)
    passes[lane] = nil
    if state then
      redis.call('HSET', lanes, lane, state)
    else
      redis.call('HDEL', lanes, lane)
    end
    redis.call('ZREM', turn, member)
  end

  -- Writes the new places before it removes the old ones. So if the script fails in between, no lane is without a place.
  -- A lane may have two places then. A later claim drops the one whose pass is not that of the lane.
  turns.write = function()
    local fields, places = {}, {}
    for lane, pass in pairs(passes) do
      fields[#fields + 1], fields[#fields + 2] = lane, struct.pack('>I8', pass)
      places[#places + 1], places[#places + 2] = '0', turn_of(lane, pass)
    end
    for name in pairs(has_served) do
      fields[#fields + 1], fields[#fields + 2] = name, string.format('%.0f', presents[name])
    end
    call_all('ZADD', turn, places)
    call_all('HSET', lanes, fields)
    call_all('ZREM', turn, left)
    left = {}
  end
end
