-- Ends runs that completed, and removes their jobs. One result for each.
--
-- The jobs of one claim have one token, so the tokens are a text of groups: two bytes with the number of jobs, and
-- the token. The buckets of the runs are a text of two bytes for each job. `has_results`: the result of its run follows
-- each id, or '' if it has set none.
--
-- Needs: fences, results, history, batch, ends.
-- May lack: grouped, read, free_places.

operations.complete = function(has_results)
  local many, tokens, buckets = args(3)
  local byte, sub = string.byte, string.sub
  many = tonumber(many)
  -- `its_results`: those of the runs.
  local ids, its_results = nil, {}
  if has_results then
    ids = {}
    for n = 1, many do
      ids[n], its_results[n] = args(2)
    end
  else
    ids = { unpack(ARGV, at, at + many - 1) }
    at = at + many
  end
  local found = get_all(fences, ids)
  if not free_places then
    -- If a claim is counted, this call does nothing: the caller has to call the script that has `lanes.lua`.
    local before
    for n = 1, many do
      local fence = found[n]
      if fence and fence ~= before then
        before = fence
        local mark = byte(fence, FENCE_BYTES)
        if mark == 43 or mark == 75 then
          needs_places = true
          return ''
        end
      end
    end
  end
  -- The results and the ended jobs, if not all claims are held.
  local results, held = nil, ids
  local token_at, group_end, token = 1, 0, nil
  -- The fence of the job before, and what it says. Nil if its claim was not held.
  local fence_before, claim, is_plain
  -- The places that become free: the members of `held`, and the scope of each, once.
  local members, scopes, is_listed = {}, {}, {}
  -- For each kind: how many of its runs have the same buckets.
  local alike, alike_of = nil, {}
  for n = 1, many do
    if n > group_end then
      local high, low = byte(tokens, token_at, token_at + 1)
      group_end = group_end + high * 256 + low
      token = sub(tokens, token_at + 2, token_at + 1 + TOKEN_BYTES)
      token_at = token_at + 2 + TOKEN_BYTES
      fence_before = nil
    end
    local fence, id = found[n], ids[n]
    local is_as_before = fence and fence == fence_before
    local its = not is_as_before and fence and sub(fence, 1, TOKEN_BYTES) == token and read_fence(fence)
    if is_as_before or its then
      if its then
        fence_before, claim = fence, its
        is_plain = claim.key == '' and claim.flags % EXTRA == 0 and claim.flags <= EXTRA + PARTITION and not claim.has_failed
        alike = alike_of[claim.kind] or {}
        alike_of[claim.kind] = alike
      end
      if results then
        results[n], held[#held + 1] = DONE, id
      end
      if is_any_cancel_requested then
        take_cancel_request(id)
      end
      local its_buckets = sub(buckets, n + n - 1, n + n)
      alike[its_buckets] = (alike[its_buckets] or 0) + 1
      if not is_plain then
        if grouped and has(claim.flags, GROUP) then
          local record = redis.call('HGET', jobs, id)
          grouped.leave(id, record and read(record), 'completed', its_results[n])
        end
        forget_all_but_count(id, claim)
      end
      local scope = claim.scope
      if scope then
        members[#members + 1] = scope .. id
        if not is_listed[scope] then
          scopes[#scopes + 1], is_listed[scope] = scope, true
        end
      end
    else
      if not results then
        results, held = {}, {}
        for before = 1, n - 1 do
          results[before], held[before] = DONE, ids[before]
        end
      end
      results[n], fence_before = CLAIM_LOST, nil
    end
  end
  for kind, its in pairs(alike_of) do
    for its_buckets, number in pairs(its) do
      note_runs(kind, COMPLETED, its_buckets, number)
      count(kind, -number)
    end
  end
  if #members > 0 then
    free_places(members, scopes)
  end
  call_all('ZREM', run, held)
  call_all('HDEL', fences, held)
  drop_progress(held)
  call_all('HDEL', jobs, held)
  return results and table.concat(results) or string.rep(DONE, many)
end
