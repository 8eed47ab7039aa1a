-- Compares `held` with the claims, after the first limit was stored, a flow has changed, or someone changed a key by hand.
-- A call compares a page. Until all pages are compared, nothing is claimed.

local is_comparing = redis.call('HGET', lanes, CHANGED_SCOPES)
if is_comparing or claims ~= redis.call('ZCARD', run) then
  -- The scope of a claim without a fence.
  local UNKNOWN = '\0\0\0'
  local COMPARED = 256

  -- The scope that a claim has by its fence, and the fence with that scope if it has another one.
  local function scope_by(fence)
    local claim = read_fence(fence)
    if not claim then
      return UNKNOWN
    end
    local partition = ''
    if claim.scope then
      local lane = string.sub(claim.scope, string.byte(claim.scope, 1) + 2)
      partition = string.sub(lane, #kind_of(lane) + 2)
    end
    local scope = scope_of(claim.kind, partition)
    if scope == claim.scope then
      return scope
    end
    local kind_bytes, key_bytes = string.byte(fence, FENCE_BYTES + 14, FENCE_BYTES + 15)
    local head = string.sub(fence, FENCE_BYTES + 1, FENCE_BYTES + HEAD_BYTES + kind_bytes + key_bytes)
    local mark = string.lower(string.sub(fence, FENCE_BYTES, FENCE_BYTES)) == 'k' and 'K' or '+'
    return scope, string.sub(fence, 1, FENCE_BYTES - 1) .. mark .. head .. scope
  end

  -- Compares a page. Returns whether it was the last one, and whether anything was wrong.
  local function compare(from)
    local claimed = {}
    for _, id in ipairs(redis.call('ZRANGE', run, from, from + COMPARED - 1)) do
      if #id == 16 then
        claimed[#claimed + 1] = id
      else
        values.set_aside('ZREM', run, id)
      end
    end
    local counted = redis.call('ZRANGE', held, from, from + COMPARED - 1)
    local found, places, changed = get_all(fences, claimed), {}, {}
    for n, id in ipairs(claimed) do
      local scope, fence = scope_by(found[n])
      places[#places + 1], places[#places + 2] = '0', scope .. id
      if fence then
        changed[#changed + 1], changed[#changed + 2] = id, fence
      end
    end
    local gone = {}
    for _, place in ipairs(counted) do
      local id = string.sub(place, -16)
      if not values.has_parts(place, 3, 16) then
        values.set_aside('ZREM', held, place)
      elseif not redis.call('ZSCORE', run, id) or scope_by(redis.call('HGET', fences, id)) .. id ~= place then
        gone[#gone + 1] = place
      end
    end
    call_all('HSET', fences, changed)
    call_all('ZREM', held, gone)
    local many = redis.call('ZCARD', held)
    call_all('ZADD', held, places)
    local is_changed = #gone > 0 or redis.call('ZCARD', held) ~= many
    return #claimed < COMPARED and #counted < COMPARED, is_changed
  end

  -- Where the next page begins, and '+' if a page before it was wrong. Renewals move claims between pages, so the last of
  -- several pages is the end only if none of them was wrong.
  local from, was_wrong = string.match(is_comparing or '0', '^(%d+)(%+?)$')
  if is_comparing and not values.number(from) then
    values.set_aside('HDEL', lanes, CHANGED_SCOPES, is_comparing)
  end
  from = values.number(from) or 0
  local is_last, is_wrong = compare(from)
  is_wrong = is_wrong or was_wrong == '+'
  claims, running = redis.call('ZCARD', held), {}
  is_comparing = not (is_last and (from == 0 or not is_wrong) and claims == redis.call('ZCARD', run))
  if is_comparing then
    local mark = is_wrong and '+' or ''
    redis.call('HSET', lanes, CHANGED_SCOPES, is_last and '0' or string.format('%.0f', from + COMPARED) .. mark)
    limit = 0
  else
    redis.call('HDEL', lanes, CHANGED_SCOPES)
  end
end
