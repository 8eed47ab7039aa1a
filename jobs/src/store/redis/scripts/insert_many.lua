-- Inserts jobs of one kind, without keys and with generated ids. One result for each.
operations.insert_many = function()
  local kind, many = args(2)
  many = tonumber(many)
  local ids, first = {}, at
  for n = 1, many do
    ids[n] = ARGV[first + 3 * n - 3]
  end
  at = at + 3 * many
  local stored = get_all(jobs, ids)
  local results, records, dues, earliest = {}, {}, {}, math.huge
  for n, id in ipairs(ids) do
    results[n] = KNOWN
    if not stored[n] then
      results[n] = INSERTED
      local time = ARGV[first + 3 * n - 2]
      records[#records + 1] = id
      records[#records + 1] = ARGV[first + 3 * n - 1]
      dues[#dues + 1] = time
      dues[#dues + 1] = id
      earliest = math.min(earliest, tonumber(time))
    end
  end
  if #records > 0 then
    note_head(kind, earliest)
    call_all('HSET', jobs, records)
    call_all('ZADD', due[kind], dues)
    count(kind, #records / 2)
    note(kind, INSERTED_JOB, #records / 2)
  end
  return table.concat(results)
end
