-- Ends runs that completed, and removes their jobs. One result for each.
operations.complete = function()
  local many = tonumber(args(1))
  local ids, first = {}, at
  for n = 1, many do
    ids[n] = ARGV[first + 2 * n - 2]
  end
  at = at + 2 * many
  local found = get_all(fences, ids)
  local results, ended = {}, {}
  for n, id in ipairs(ids) do
    local fence, token = found[n], ARGV[first + 2 * n - 1]
    results[n] = CLAIM_LOST
    if fence and string.sub(fence, 1, TOKEN_BYTES) == string.sub(token, 1, TOKEN_BYTES) then
      results[n] = DONE
      ended[#ended + 1] = id
      take_cancel_request(id)
      local claim = read_fence(fence)
      note_run(claim.kind, COMPLETED, token)
      forget(id, claim, fence)
    end
  end
  call_all('ZREM', run, ended)
  call_all('HDEL', fences, ended)
  drop_progress(ended)
  call_all('HDEL', jobs, ended)
  return table.concat(results)
end
