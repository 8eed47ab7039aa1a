-- Returns everything about some jobs.
--
-- ARGV from `at` on: a limit of bytes; for each job 'id' and its id, or 'key' and its key.
-- Returns { 'ok', microseconds, jobs }: for each job a list, which is empty if there is no such job, or if its
-- record makes no sense. The list has its id; its state: `pending`, `ended`, `running` if the caller has claimed
-- the job, `claimed` if another process has; its due time; '1' if it holds its key; its record; the progress of its run,
-- or ''. That of a claimed job has three more: the number of its fence, when its lease ends, and the name of the node,
-- or '' if none is noted.
-- The list of jobs ends early once what it has exceeds the limit.
--
-- Needs: records, fences.

-- The names of nodes by their number, as far as they were read.
local names = {}

local function name_of(node)
  if node and not names[node] then
    local row = redis.pcall('HGET', nodes, node)
    local is_read, its = pcall(cjson.decode, type(row) == 'string' and string.match(row, '^%d+ (.*)$') or '')
    local is_node = is_read and type(its) == 'table' and type(its.host) == 'string' and type(its.pid) == 'number'
    names[node] = is_node and its.host .. '/' .. string.format('%.0f', its.pid) or ''
  end
  return node and names[node] or ''
end

local most_bytes = tonumber(args(1))
local found, bytes = {}, 0
while at <= #ARGV and bytes <= most_bytes do
  local by, id = args(2)
  if by == 'key' then
    id = redis.call('HGET', keys, id)
  end
  local record = id and redis.call('HGET', jobs, id)
  local job = record and read(record)
  if job then
    bytes = bytes + #record
    local own = '0'
    if job.key ~= '' and (has(job.flags, ENDED) or redis.call('HGET', keys, job.key) == id) then
      own = '1'
    end
    local fence = redis.call('HGET', fences, id)
    if has(job.flags, ENDED) then
      found[#found + 1] = { id, 'ended', string.format('%.0f', job.due), own, record, '' }
    elseif fence then
      local claim = read_fence(fence) or { due = now, number = 0 }
      local time = string.format('%.0f', claim.due)
      local state = claim.owner == owner and 'running' or 'claimed'
      local lease_end = redis.call('ZSCORE', run, id) or ''
      local its_progress = redis.call('HGET', progress, id) or ''
      bytes = bytes + #its_progress
      found[#found + 1] = { id, state, time, own, record, its_progress,
        string.format('%.0f', claim.number), lease_end, name_of(claim.owner) }
    else
      local score = redis.call('ZSCORE', due[job.kind], id)
      local time = score and string.format('%.0f', time_of(tonumber(score)))
      found[#found + 1] = { id, 'pending', time, own, record, '' }
    end
  else
    found[#found + 1] = {}
  end
end
return { 'ok', micros, found }
