-- Changes to groups. `batch.lua` says how they are called.

-- Inserts members. A result for the group, and one for each member.
function grouped.insert_members(of, many)
  local results = {}
  for n = 1, many do
    local id, kind, time, if_taken, key, record = args(6)
    results[n] = insert(id, kind, tonumber(time), if_taken, key, record)
    if results[n] == INSERTED then
      grouped.join(id, of)
    end
  end
  return CHANGED .. table.concat(results)
end

-- Passes over members that a group does not take.
function grouped.refuse_members(refusal, many)
  at = at + 6 * many
  return refusal .. string.rep(UNCHANGED, many)
end

-- Inserts a group. `callback_id`: '' if it has no callback. `outer`: the group of which the callback is a member, or ''.
operations.insert_group = function()
  local id, is_sealed, waits, callback_id, callback, outer, many = args(7)
  many = tonumber(many)
  local refusal = outer ~= '' and grouped.refusal(outer)
  if callback_id ~= '' and not refusal
    and (redis.call('HEXISTS', jobs, callback_id) == 1 or redis.call('ZSCORE', ended, callback_id)) then
    refusal = GROUP_REFUSED .. 'c'
  end
  if redis.call('HEXISTS', groups, id) == 1 then
    refusal = GROUP_REFUSED .. 'x'
  end
  if refusal then
    return grouped.refuse_members(refusal, many)
  end
  grouped.make(id, waits == '1', callback_id, callback)
  if callback_id ~= '' then
    -- No other job takes the id until the group ends.
    redis.call('ZADD', ended, LATEST, callback_id)
  end
  if outer ~= '' then
    grouped.join(callback_id, outer)
  end
  local results = grouped.insert_members(id, many)
  if is_sealed == '1' then
    grouped.seal(id, false)
  end
  return results
end

operations.add_to_group = function()
  local id, many = args(2)
  many = tonumber(many)
  local refusal = grouped.refusal(id)
  if refusal then
    return grouped.refuse_members(refusal, many)
  end
  return grouped.insert_members(id, many)
end

operations.seal_group = function()
  return grouped.seal(args(1), false)
end

operations.cancel_group = function()
  return grouped.seal(args(1), true)
end

-- Ends the runs of members that completed.
operations.complete_member = function()
  return operations.complete()
end
