-- Inserts jobs of one kind, without keys and with generated ids, that have a partition: `insert_many.lua`.

operations.insert_coming = function()
  filing.check_keys()
  local kind, found = ARGV[at], {}
  local results = operations.insert_many(function(time, id, record)
    local n = #found
    -- The record has neither key nor errors.
    found[n + 1], found[n + 2], found[n + 3] = lane_of(kind, partition_in(record, HEAD_BYTES + #kind + 1)), time, id
  end)
  filing.put(found)
  return results
end
