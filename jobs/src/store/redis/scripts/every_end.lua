-- Functions for every end of a claim.

-- Read once for the call, since almost always no cancel is requested.
local is_any_cancel_requested = redis.call('SCARD', cancel_requested) > 0

-- Whether the cancel of this claimed job was requested. Drops the request.
local function take_cancel_request(id)
  return is_any_cancel_requested and redis.call('SREM', cancel_requested, id) == 1
end

-- Counts ends of runs. `buckets`: the two bytes of the buckets of each of them, or less if the history does not count
-- them.
local function note_runs(kind, figure, buckets, number)
  local late, took = string.byte(buckets, 1, 2)
  if took then
    local of = figures_of(kind)
    note_figure(of, figure, number)
    note_figure(of, LATE + math.min(late, TOOK - LATE - 1), number)
    note_figure(of, TOOK + math.min(took, FIGURES - TOOK - 1), number)
  end
end

-- Counts the end of a run. `token`: the token of its claim, and behind it the buckets.
local function note_run(kind, figure, token)
  note_runs(kind, figure, string.sub(token, TOKEN_BYTES + 1), 1)
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

-- Removes a claimed job from all keys but `jobs`, which has its record, and does not count it.
local function forget_all_but_count(id, claim)
  free_key(claim.key, id)
  remember(id, claim.flags)
  count_retrying(claim.kind, claim.has_failed and -1 or 0)
end

-- Removes a claimed job from all keys but `jobs`, and counts it.
local function forget(id, claim)
  forget_all_but_count(id, claim)
  count(claim.kind, -1)
end
