-- Takes the candidates in their order.

local function first_list()
  if #lists == 1 then
    local list = lists[1]
    return not list.is_passed_over and list.ids[list.cursor] and list
  end
  local best
  for _, list in ipairs(lists) do
    set_rank(list)
    if list.rank and not list.is_passed_over and (not best or list.rank < best.rank) then
      best = list
    end
  end
  return best
end

while taken < limit and bytes < most_bytes do
  local list = first_list()
  if not list then
    break
  end
  local kind, interruptions = list.kind, list.interruptions
  if not has_room(kind) then
    list.is_passed_over = true
  elseif interruptions > 0 and not admits(interruptions) then
    list.is_passed_over = true
    waits = 1
  else
    local most, before = 1, taken
    if #lists == 1 and interruptions == 0 then
      most = math.min(limit - taken, room[kind], #list.ids - list.cursor + 1)
      most = math.min(most, is_blocking[kind] and blocking or most, head_start[kind] and most or plain)
    end
    take(list, most)
    local by = taken - before
    room[kind] = room[kind] - by
    blocking = blocking - (is_blocking[kind] and by or 0)
    plain = plain - (head_start[kind] and 0 or by)
  end
end
