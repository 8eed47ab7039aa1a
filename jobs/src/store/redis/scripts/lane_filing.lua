-- How a pending job comes into the lane of its partition, and how it leaves it.
--
-- A job is in its lane from its insert on, and nothing moves it when it becomes due. If it is the first of its lane, the
-- lane has a note for its due time: see `limits.lua`. A claim that finds the time of the note past puts the lane in turn,
-- however many jobs of other lanes are due.
--
-- Gives: filing, enqueue.
-- Needs: lanes.

local filing = {}
do
  local are_lanes_checked

  -- Fails if a user has given a key of lanes another type. A script calls it before it writes.
  filing.check_keys = function()
    if not are_lanes_checked then
      redis.call('ZCARD', wait)
      redis.call('ZCARD', turn)
      redis.call('HLEN', lanes)
      are_lanes_checked = true
    end
  end

  -- The state of a lane whose first job is due at this time.
  local function later_until(time)
    return string.rep('\0', 8) .. LATER .. struct.pack('>I8', time)
  end

  -- Puts pending jobs into their lanes. `found`: for each the lane, the due time and the id.
  filing.put = function(found)
    local names, firsts, members = {}, {}, {}
    for n = 1, #found, 3 do
      local lane, time = found[n], found[n + 1]
      if not firsts[lane] then
        names[#names + 1] = lane
      end
      firsts[lane] = math.min(time, firsts[lane] or time)
      members[#members + 1], members[#members + 2] = '0', place_in(lane, time, found[n + 2])
    end
    local states, notes, left = {}, {}, {}
    for n, state in ipairs(get_all(lanes, names)) do
      local lane, first = names[n], firsts[names[n]]
      local _, _, time, is_later = read_lane(state or '')
      if not state or is_later and first < time then
        states[#states + 1], states[#states + 2] = lane, later_until(first)
        notes[#notes + 1], notes[#notes + 2] = '0', note_of(lane, first)
        left[#left + 1] = is_later and note_of(lane, time) or nil
        lowest_in_lanes = math.min(lowest_in_lanes, first)
      end
    end
    call_all('ZADD', wait, members)
    call_all('ZADD', turn, notes)
    call_all('HSET', lanes, states)
    call_all('ZREM', turn, left)
  end

  -- Notes in `found` a new job of a kind, whose record has neither key nor errors.
  filing.note_new = function(found, kind, time, id, record)
    local n = #found
    found[n + 1], found[n + 2], found[n + 3] = lane_of(kind, values.section(record, HEAD_BYTES + #kind + 1, 3)), time, id
  end

  -- Takes a pending job out of its lane. `job`: its record. If the lane has no other job, a claim finds that when the time
  -- of its note has come, or a poll before that.
  filing.leave = function(id, job)
    local lane = lane_of_job(job)
    local score = lane and redis.call('ZSCORE', due[job.kind], id)
    if score then
      redis.call('ZREM', wait, place_in(lane, time_of(tonumber(score)), id))
    end
  end
end

-- Makes a job pending. `interruptions`: its number of interruptions in a row. `lane`: nil if it has no partition.
local function enqueue(kind, id, time, interruptions, lane)
  if lane then
    redis.call('ZADD', due[kind], time + COMING, id)
    filing.put({ lane, time, id })
  else
    note_head(kind, time)
    redis.call('ZADD', due[kind], time + BAND * math.min(interruptions, MOST_INTERRUPTIONS - 1), id)
  end
end
