-- Ends a run that completed, and inserts its follow-ups.

-- The follow-ups come first, then the operation that ends the run: `complete` or `complete_and_keep` with one item. One
-- result for the end, and one for each follow-up. If the claim is no longer held, nothing is inserted. The follow-ups of a
-- member join its group, which is looked at after the operation.
operations.then_insert = function()
  -- The end frees memory, and a server accepts every write of a script after its first one. So a full server must refuse
  -- the script here. This write changes nothing.
  redis.call('ZADD', run, 'XX', 0, '')
  local many = tonumber(args(1))
  local first = at
  at = at + 6 * many
  local results = { operations[args(1)]() }
  for n = 1, many do
    local from = first + 6 * n - 6
    if results[1] == DONE then
      local id, kind, time, if_taken, key, record = unpack(ARGV, from, from + 5)
      results[n + 1] = insert(id, kind, tonumber(time), if_taken, key, record)
      if results[n + 1] == INSERTED and has(string.byte(record, 1), GROUP) then
        grouped.join(id, grouped.of(read(record)))
      end
    else
      results[n + 1] = UNCHANGED
    end
  end
  return table.concat(results)
end
