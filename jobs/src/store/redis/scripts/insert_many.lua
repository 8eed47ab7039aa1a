-- Inserts jobs of one kind, without keys and with generated ids. One result for each. All have a partition, or none has:
-- the digits of their due times are those of their scores.
--
-- Needs: results, history, batch.
-- May lack: filing.

-- Whether a time is earlier than another. Both are the digits of milliseconds: to make numbers of them takes longer.
local function is_earlier(time, other)
  return #time < #other or #time == #other and time < other
end

-- `note_new`: called with the due time, the id and the record of each job that is new, if they have a partition.
operations.insert_many = function(note_new)
  local kind, many = args(2)
  many = tonumber(many)
  local first = at
  local ids = {}
  for n = 1, many do
    ids[n] = ARGV[first + 3 * n - 3]
  end
  at = at + 3 * many
  local stored = get_all(jobs, ids)
  -- Nearly always no job is stored already: then there is one result for all.
  local results, records, dues, new, earliest = nil, {}, {}, 0, ARGV[first + 1]
  for n = 1, many do
    if stored[n] then
      results = results or { string.rep(INSERTED, n - 1) }
      results[#results + 1] = KNOWN
    else
      if results then
        results[#results + 1] = INSERTED
      end
      local time, id, from = ARGV[first + 3 * n - 2], ids[n], new + new
      new = new + 1
      records[from + 1], records[from + 2] = id, ARGV[first + 3 * n - 1]
      dues[from + 1], dues[from + 2] = time, id
      if note_new then
        note_new(tonumber(time) - COMING, id, records[from + 2])
      end
      if time ~= earliest and is_earlier(time, earliest) then
        earliest = time
      end
    end
  end
  if new > 0 then
    if not note_new then
      note_head(kind, tonumber(earliest))
    end
    call_all('HSET', jobs, records)
    call_all('ZADD', due[kind], dues)
    count(kind, new)
    note(kind, INSERTED_JOB, new)
  end
  return results and table.concat(results) or string.rep(INSERTED, many)
end

-- The same for jobs that have a partition.
if filing then
  operations.insert_coming = function()
    filing.check_keys()
    local kind, found = ARGV[at], {}
    local results = operations.insert_many(function(time, id, record)
      filing.note_new(found, kind, time, id, record)
    end)
    filing.put(found)
    return results
  end
end
