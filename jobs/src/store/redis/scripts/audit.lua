-- Checks some jobs: compares all keys in which their ids may be.
--
-- ARGV from `at` on: ids.
-- Returns { 'ok', microseconds, pairs }: an id, and the invariant that it breaks.
--
-- Needs: records, kept_lists, fences, lanes.

local wrong = {}
local are_counted = redis.call('ZCARD', held) > 0

for n = at, #ARGV do
  local id = ARGV[n]
  local found_in = {}
  local score
  for kind, key in pairs(due) do
    local found = redis.call('ZSCORE', key, id)
    if found then
      score = tonumber(found)
      found_in[#found_in + 1] = 'waits as ' .. kind
    end
  end
  local claimed = redis.call('ZSCORE', run, id)
  if claimed then
    found_in[#found_in + 1] = 'claimed'
  end
  local function say(what)
    wrong[#wrong + 1] = id
    wrong[#wrong + 1] = what .. ' (' .. table.concat(found_in, ', ') .. ')'
  end
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  local has_ended = job and has(job.flags, ENDED)
  if has_ended then
    found_in[#found_in + 1] = 'ended'
  end
  if record and not job then
    say('R12: a record makes sense')
  elseif record then
    if #found_in ~= 1 then
      say('R1: a job is in one place')
    elseif not has_ended and not claimed and found_in[1] ~= 'waits as ' .. job.kind then
      say('R2: a job waits among those of its kind, ' .. job.kind)
    end
    local band = score and math.floor(score / BAND)
    if band and has(job.flags, PARTITION) ~= (band * BAND >= COMING)
      or band and band * BAND < COMING and band ~= math.min(job.interruptions, MOST_INTERRUPTIONS - 1) then
      say('R13: a job waits where its interruptions and its partition say')
    end
    local is_of_lane = has(job.flags, PARTITION)
    local lane = lane_of_job(job) or lane_of(job.kind, '')
    if are_counted and not claimed and redis.call('ZSCORE', held, scope_of_lane(job.kind, lane) .. id) then
      say('R20: only a claim has a place')
    end
    if is_of_lane then
      local place = score and redis.call('ZSCORE', wait, place_in(lane, time_of(score), id))
      if score and not place then
        say('R17: a pending job with a partition is in its lane')
      elseif place and not redis.call('HGET', lanes, lane) then
        say('R18: a lane with waiting jobs is known')
      end
    end
    local list = has_ended and kept_lists.of(id, job)
    if has_ended and not list then
      say('R7: a job that has ended is in a list of such jobs')
    elseif (redis.call('ZSCORE', ended, list or id) ~= false) ~= has_ended then
      say('R3: a job that has ended has a date after which it goes, and the id of no other job has one')
    end
    if not has_ended and has(job.flags, GROUP) then
      local of = group_of_job(job)
      if not of or not redis.call('ZSCORE', members, 'o' .. of .. id) then
        say('G1: a member that has not ended is among those of its group')
      end
    end
    if has_ended and job.ending == AS_DEAD and has(job.flags, GROUP) then
      local of = group_of_job(job)
      if not of or redis.call('HEXISTS', groups, of) == 0 then
        say('G1: the group of a dead member is there')
      end
    end
    if not has_ended and holds_key(job) and redis.call('HGET', keys, job.key) ~= id then
      say('R15: a job that holds its key until its end has it')
    end
    if has_ended and redis.call('HGET', keys, job.key) == id then
      say('R4: a job that has ended has no key')
    end
  elseif #found_in > 0 then
    say('R5: what waits or is claimed has a record')
  end
  if redis.call('HEXISTS', progress, id) == 1 and not claimed then
    say('R16: only a claimed job has progress')
  end
  local fence = redis.call('HGET', fences, id)
  if (fence ~= false) ~= (claimed ~= false) then
    say('R6: what is claimed has a fence')
  elseif fence then
    local claim = read_fence(fence)
    local scope = claim and claim.scope
    if not claim then
      say('R22: the fence of a claim can be read')
    elseif scope and not redis.call('ZSCORE', held, scope .. id) then
      say('R19: a counted claim has its place')
    end
  end
end
return { 'ok', micros, wrong }
