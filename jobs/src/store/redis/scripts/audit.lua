-- Checks some jobs: compares all keys in which their ids may be.
--
-- ARGV from `at` on: ids.
-- Returns { 'ok', microseconds, pairs }: an id, and the invariant that it breaks.

local wrong = {}
for n = at, #ARGV do
  local id = ARGV[n]
  local places = {}
  local score
  for kind, key in pairs(due) do
    local found = redis.call('ZSCORE', key, id)
    if found then
      score = tonumber(found)
      places[#places + 1] = 'waits as ' .. kind
    end
  end
  local claimed = redis.call('ZSCORE', run, id)
  if claimed then
    places[#places + 1] = 'claimed'
  end
  local is_dead = redis.call('ZSCORE', dead, id)
  if is_dead then
    places[#places + 1] = 'dead'
  end
  local function say(what)
    wrong[#wrong + 1] = id
    wrong[#wrong + 1] = what .. ' (' .. table.concat(places, ', ') .. ')'
  end
  local record = redis.call('HGET', jobs, id)
  local job = record and read(record)
  if record and not job then
    say('R12: a record makes sense')
  elseif record then
    if #places ~= 1 then
      say('R1: a job is in one place')
    elseif not is_dead and not claimed and places[1] ~= 'waits as ' .. job.kind then
      say('R2: a job waits among those of its kind, ' .. job.kind)
    end
    if score and math.floor(score / BAND) ~= math.min(job.interruptions, MOST_INTERRUPTIONS - 1) then
      say('R13: a job waits where its interruptions say')
    end
    if has(job.flags, DEAD) ~= (is_dead ~= false) then
      say('R3: the record of a dead job says that it is dead')
    end
    if not is_dead and holds_key(job) and redis.call('HGET', keys, job.key) ~= id then
      say('R15: a job that holds its key until its end has it')
    end
    if is_dead and redis.call('HGET', keys, job.key) == id then
      say('R4: a dead job has no key')
    end
  elseif #places > 0 then
    say('R5: what waits, is claimed or is dead has a record')
  end
  if (redis.call('HEXISTS', fences, id) == 1) ~= (claimed ~= false) then
    say('R6: what is claimed has a fence')
  end
  if (redis.call('ZSCORE', died, id) ~= false) ~= (is_dead ~= false) then
    say('R7: what is dead has a time of death')
  end
  if redis.call('ZSCORE', done, id) and record then
    say('R8: an id that is remembered has no job')
  end
end
return { 'ok', micros, wrong }
