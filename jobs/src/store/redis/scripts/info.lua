-- What the store has of some jobs, by id ('i') or by key ('k'). Answers for each its id, a letter for
-- its state, its deadline, when it died, whether its key is its own, and its record; or an empty
-- list; so it is of a record that makes no sense. Ends early when there are too many bytes.

local most_bytes = tonumber(ARGV[at])
local found, bytes = {}, 0
for n = at + 1, #ARGV do
  if bytes > most_bytes then
    break
  end
  local id = string.sub(ARGV[n], 2)
  if string.sub(ARGV[n], 1, 1) == 'k' then
    id = redis.call('HGET', keys, id)
  end
  local record = id and redis.call('HGET', jobs, id)
  local job = record and read(record)
  if job then
    bytes = bytes + #record
    local own = '0'
    if job.key ~= '' and (has(job.flags, DEAD) or redis.call('HGET', keys, job.key) == id) then
      own = '1'
    end
    local fence = redis.call('HGET', fences, id)
    if has(job.flags, DEAD) then
      local time = redis.call('ZSCORE', died, id)
      found[#found + 1] = { id, 'd', string.format('%.0f', job.due), time, own, record }
    elseif fence then
      local time = string.format('%.0f', deadline_of(fence))
      found[#found + 1] = { id, 'r', time, '', own, record }
    else
      local score = redis.call('ZSCORE', due[job.kind], id)
      local time = score and string.format('%.0f', time_of(tonumber(score)))
      found[#found + 1] = { id, 'p', time, '', own, record }
    end
  else
    found[#found + 1] = {}
  end
end
return { 'ok', micros, found }
