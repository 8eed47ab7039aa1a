-- The partitions of jobs and their lanes, and the places of claims in the scopes that may be limited.
--
-- `flow` has the limits, the pauses of partitions and the flows. While it is empty, no claim is counted and no job has
-- a lane. The field '' says that some job has had a partition, or that a program has given a limit.
-- `held` has one member for each claim: its scope, and its id. The scope is the flow, the kind and the partition, each
-- with its length before it. So the claims of a flow or of a lane are a range of `held`, and an end that comes twice
-- frees one place. The scope stands in the fence.
-- `wait` has one member for each pending job with a partition: the lane, the due time, the id. The due set of the kind has
-- the job too.
-- `lanes` has each lane with a job in `wait`: its pass in eight bytes, which is its weight times ROUNDS, and the round of
-- its next turn. Behind it stands PARKED if the lane is parked, or UNTIL and eight bytes of time if it is parked until a
-- time. LATER and the due time of its first job stand there if no job of the lane is due; then the pass says nothing. Under
-- the length and the name of a kind it has three numbers for each weight of its lanes: see `turns.lua`. The marks below and
-- that of `heal_lanes.lua` are fields of `lanes` too, with names that begin with a zero byte.
-- `turn` has the lanes in turn: the kind, the pass, the partition. The bytes of a pass sort as its number does. It also
-- has the notes of `limits.lua`, before all lanes.
--
-- It adds `values.is_too_old`.
--
-- Gives: lane_of, place_in, scope_of_lane, lane_of_job, PARKED, UNTIL, LATER, ROUNDS, WAITED_FOR,
--   CHANGED_SCOPES, CHANGED_LANES, NOTED, kind_of, turn_of, read_lane, note_of, put_in_turn, rounds_in, latest_pass,
--   bring_back, free_places, free_place.

-- Whether a pending job is too old to start. `key_bytes`: the length of the key in its record.
function values.is_too_old(record, kind, key_bytes)
  if not has(string.byte(record), EXTRA) then
    return false
  end
  local high, low = string.byte(record, 16, 17)
  local expires = values.section(record, HEAD_BYTES + #kind + key_bytes + high * 256 + low + 1, 6)
  return #expires == 8 and struct.unpack('>I8', expires) < now
end

-- The lane of a partition: the kind and the partition, each with its length before it.
local function lane_of(kind, partition)
  return string.char(#kind) .. kind .. string.char(math.min(#partition, 255)) .. partition
end

-- The member of `wait` for a job.
local function place_in(lane, time, id)
  return lane .. struct.pack('>I8', time) .. id
end

-- The scope of the claims of a lane, as the flow of its kind is now.
local function scope_of_lane(kind, lane)
  local its_flow = values.flow(redis.call('HGET', flow, 'flow:' .. kind), kind)
  return string.char(#its_flow) .. its_flow .. lane
end

-- The lane of a job, from its record. Nil if it has no partition.
local function lane_of_job(job)
  return has(job.flags, PARTITION) and lane_of(job.kind, values.section(job.payload, 1, 3)) or nil
end

local PARKED, UNTIL, LATER = 'p', 't', 'd'
-- More rounds than a weight ever has. The greatest weight times this is a number that a script has exactly.
local ROUNDS = 2 ^ 42
-- A claim has found the queue or a flow full.
local WAITED_FOR = '\0w'
-- A flow has changed: `held` is compared with the claims, from this place on.
local CHANGED_SCOPES = '\0h'
-- The limit of each partition of a kind has changed: parked lanes come back, and lanes get their weights, from this cursor
-- of `lanes` on.
local CHANGED_LANES = '\0s'
-- The time of the latest note in `turn`. If the clock reads less, it was set back.
local NOTED = '\0c'

-- The length and the name of the kind of a lane.
local function kind_of(lane)
  return string.sub(lane, 1, 1 + string.byte(lane, 1))
end

local function turn_of(lane, pass)
  local kind = kind_of(lane)
  return kind .. struct.pack('>I8', pass) .. string.sub(lane, #kind + 1)
end

-- The pass in the state of a lane; whether it is parked; until when, if it is parked until a time; and whether it is
-- because no job of it is due before.
local function read_lane(state)
  local pass, mark = #state >= 8 and (struct.unpack('>I8', state)) or 0, string.sub(state, 9, 9)
  local time = #state == 17 and values.time(state, 10)
  if (pass == 0 or pass >= 2 ^ 53) and not (mark == LATER and time) then
    -- Another program wrote it.
    return 0, true
  end
  if time and (mark == UNTIL or mark == LATER) then
    return pass, true, time, mark == LATER
  end
  return pass, mark ~= ''
end

-- The member of `turn` for a lane that is parked until a time.
local function note_of(lane, time)
  return '\0' .. struct.pack('>I8', time) .. lane
end

local function put_in_turn(lane, pass)
  redis.call('HSET', lanes, lane, struct.pack('>I8', pass))
  redis.call('ZADD', turn, '0', turn_of(lane, pass))
end

-- For each weight of a kind, the pass of the lane that was served last, and its lag. `numbers`: as `turns.lua` writes them.
local function rounds_in(numbers)
  local found = {}
  for weight, round, lag in string.gmatch(numbers, '(%d+) (%d+) (%S+)') do
    weight, round, lag = values.number(weight), values.number(round), tonumber(lag)
    if weight and weight <= 1000 and round and round < ROUNDS then
      -- A lag is the part of a few turns.
      local its_lag = lag and math.abs(lag) < 1e6 and lag or 0
      found[#found + 1] = { weight = weight, pass = weight * ROUNDS + round, lag = its_lag }
    end
  end
  return found
end

-- The pass of the lane of this weight that was served last. `numbers`: those of the kind, as `turns.lua` writes them.
local function latest_pass(numbers, weight)
  for _, found in ipairs(rounds_in(numbers)) do
    if found.weight == weight then
      return found.pass
    end
  end
  return weight * ROUNDS
end

-- Puts a lane in turn again, if it is parked. `has_ended`: because a claim of it has ended. A lane that is parked until a
-- time stays parked then, and one without a due job in any case.
local function bring_back(lane, has_ended)
  local state = redis.call('HGET', lanes, lane)
  if not state then
    return false
  end
  local pass, is_parked, time, is_later = read_lane(state)
  if is_later or time and has_ended then
    return false
  end
  if time then
    redis.call('ZREM', turn, note_of(lane, time))
  end
  if is_parked then
    local numbers = redis.call('HGET', lanes, kind_of(lane)) or ''
    put_in_turn(lane, math.max(pass, latest_pass(numbers, math.max(math.floor(pass / ROUNDS), 1))))
  end
  return is_parked
end

local free_places
do
  -- Whether the script has looked if a claim waits for a place, and whether it has told the other processes.
  local has_looked, has_told

  -- Frees the places of claims that have ended. `members`: their members of `held`. `scopes`: the scope of each, once. The
  -- other processes claim if a job waits for a place.
  free_places = function(members, scopes)
    call_all('ZREM', held, members)
    local parked, is_waited_for = {}, false
    for _, scope in ipairs(scopes) do
      local lane = string.sub(scope, string.byte(scope, 1) + 2)
      if #lane > #kind_of(lane) + 1 then
        parked[#parked + 1] = lane
      end
    end
    for n, state in ipairs(get_all(lanes, parked)) do
      if state and select(2, read_lane(state)) then
        is_waited_for = bring_back(parked[n], true) or is_waited_for
      end
    end
    if not has_looked then
      has_looked = true
      is_waited_for = redis.call('HDEL', lanes, WAITED_FOR) == 1 or is_waited_for
    end
    if is_waited_for and not has_told then
      has_told = true
      publish('due ' .. string.format('%.0f', now))
    end
  end
end

local function free_place(id, scope)
  free_places({ scope .. id }, { scope })
end
