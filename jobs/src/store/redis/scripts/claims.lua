-- Functions for every end of a claim.

-- Read once for the call, since almost always no cancel is requested.
local is_any_cancel_requested = redis.call('SCARD', cancel_requested) > 0

-- Whether the cancel of this claimed job was requested. Drops the request.
local function take_cancel_request(id)
  return is_any_cancel_requested and redis.call('SREM', cancel_requested, id) == 1
end

-- Counts the end of a run. `token`: the token of its claim, and the buckets of the run behind it if the history counts
-- them.
local function note_run(kind, figure, token)
  local late, took = string.byte(token, TOKEN_BYTES + 1, TOKEN_BYTES + 2)
  if took then
    local of = figures_of(kind)
    note_figure(of, figure, 1)
    note_figure(of, LATE + math.min(late, TOOK - LATE - 1), 1)
    note_figure(of, TOOK + math.min(took, FIGURES - TOOK - 1), 1)
  end
end

-- Whether any run has progress: read once for the call, since almost always none has.
local is_any_progress

local function drop_progress(ids)
  if is_any_progress == nil then
    is_any_progress = redis.call('HLEN', progress) > 0
  end
  if is_any_progress then
    call_all('HDEL', progress, ids)
  end
end

-- Removes a claimed job from all keys but `jobs`, which has its record.
local function forget(id, claim, fence)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count(claim.kind, -1)
  count_retrying(claim.kind, has_failed(fence) and -1 or 0)
end
