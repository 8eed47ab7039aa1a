-- The beginning of a claim: its arguments, and the answer to a call that comes twice. `candidates.lua` and
-- `write_claim.lua` follow.
--
-- A claim takes the first jobs that are due, of the kinds that the caller handles. In their order a job counts as if it
-- had become due earlier by the head start of its kind.
--
-- A suspect is a job that was interrupted. The claim passes over suspects that it may not take, and takes
-- later jobs instead.
--
-- If the answer to a claim was lost, the claim is sent again under its number, and is answered with the jobs
-- that it has claimed. A copy that arrives after a later claim claims nothing, since no caller waits for it.
--
-- There are two scripts. While `flow` is empty, the script without lanes makes the claim; otherwise the script with lanes
-- makes it.
--
-- ARGV from `at` on:
--   how many jobs with a partition it may take whose handlers block a thread; '' in the script without lanes
--   how many kinds with flows follow; for each the flow, and the limit of the flow if none is stored, or ''
--   the number of the claim
--   how many jobs it may take
--   the lease in milliseconds
--   how many jobs that were interrupted once it may take
--   '1' if it may take one job that was interrupted more often, without other suspects
--   the nonce of its fences
--   how many bytes of records it may take
--   '1' if an earlier copy of it may still arrive
--   '1' if that one job may be one that its next interruption makes dead
--   how many jobs it may take of kinds whose handlers block a thread
--   a digit for each kind: '1' if its handler blocks a thread
--   how many jobs it may take of each kind, with spaces between
--   the head start of each kind in milliseconds, with spaces between; '' if no kind has one
--   how many jobs it may take of kinds without a head start; '' if no kind has one
--   the kinds
-- Returns { 'ok', microseconds, when the next job is due or -1, 1 if a suspect waits, claimed jobs, ids, the number of
-- the fences }: id, due time and record of each claimed job, with a `k` behind the due time if the job has its key;
-- the names of values that were set aside. The caller needs the number and the nonce of each fence. Or
-- { 'lanes', microseconds, 1 } or { 'plain', microseconds, 0 } if the caller has to call the other script.
--
-- Gives: in_lanes, many_flows, flows_at, may_run, opens_at, fits, plain_scope, next_in_lanes, at_end, number, limit,
--   lease, crashed_once, nonce, most_bytes, has_copy, blocking, plain, is_blocking, room, head_start, reply, waits,
--   has_room, has_partitions, has_suspects, admits, take_note, next_due.

local in_lanes, many_flows = args(2)
in_lanes, many_flows = tonumber(in_lanes), tonumber(many_flows)
local flows_at = at
at = at + 2 * many_flows
-- `limits.lua` and `take_lanes.lua` set them. They stay nil in the script without lanes: no job has a partition, and nothing
-- is limited.
local may_run, opens_at, fits, plain_scope, next_in_lanes, at_end

local number, limit, lease, crashed_once, poison_pill, nonce = args(6)
local most_bytes, has_copy, last_try, blocking, plain
-- For each kind: whether its handler blocks a thread, its room, and its head start if it has one.
local is_blocking, room, head_start = {}, {}, {}
do
  local digits, rooms, head_starts
  most_bytes, has_copy, last_try, blocking, digits, rooms, head_starts, plain = args(8)
  local next_kind = at
  for its_room in string.gmatch(rooms, '%d+') do
    local kind = ARGV[next_kind]
    room[kind] = tonumber(its_room)
    is_blocking[kind] = string.sub(digits, next_kind - at + 1, next_kind - at + 1) == '1'
    next_kind = next_kind + 1
  end
  next_kind = at
  for its_head_start in string.gmatch(head_starts, '%d+') do
    if its_head_start ~= '0' then
      head_start[ARGV[next_kind]] = tonumber(its_head_start)
    end
    next_kind = next_kind + 1
  end
end
limit, lease, most_bytes = tonumber(limit), tonumber(lease), tonumber(most_bytes)
crashed_once, blocking = tonumber(crashed_once), tonumber(blocking)
plain = tonumber(plain) or math.huge
poison_pill, has_copy, last_try = poison_pill == '1', has_copy == '1', last_try == '1'
local reply = {}
local waits = 0

-- Whether the claim has room for a job of this kind.
local function has_room(kind)
  return room[kind] > 0 and (blocking > 0 or not is_blocking[kind]) and (plain > 0 or head_start[kind])
end

-- Whether a kind has pending suspects without a partition; and whether any kind has pending jobs with one.
local suspected, has_partitions = {}, false

local function has_suspects(kind)
  if suspected[kind] == nil then
    local many = redis.call('ZCOUNT', due[kind], BAND, '+inf')
    local with_partition = many > 0 and redis.call('ZCOUNT', due[kind], COMING, '+inf') or 0
    has_partitions = has_partitions or with_partition > 0
    suspected[kind] = many > with_partition
  end
  return suspected[kind]
end

-- Whether a suspect with this number of interruptions may be claimed. `ClaimRequest::admits` has the same rule.
local function admits(interruptions)
  if interruptions == 1 then
    return crashed_once > 0
  end
  return poison_pill and (last_try or interruptions + 1 < MOST_INTERRUPTIONS)
end

local function take_note(interruptions)
  if interruptions == 1 then
    crashed_once, poison_pill = crashed_once - 1, false
  else
    crashed_once, poison_pill = 0, false
  end
end

-- When the next job is due that this caller could claim, or -1. Three do not count: a due suspect that has to
-- wait; a job of a kind without room; and a job of a kind that blocks a thread while all threads are busy. The
-- end of a run leads to the next claim.
local function next_due()
  local first_of_all = math.huge
  for n = at, #ARGV do
    local kind, earliest = ARGV[n], math.huge
    local opens = opens_at and opens_at(kind) or 0
    if opens < math.huge and has_room(kind) and next_in_lanes then
      earliest = next_in_lanes(kind)
    end
    if opens < math.huge and has_room(kind) and (not fits or fits(kind)) then
      local head = tonumber(redis.call('ZRANGE', due[kind], '0', '0', 'WITHSCORES')[2]) or math.huge
      if head < BAND then
        earliest = math.min(earliest, head)
      end
      for interruptions = 1, has_suspects(kind) and MOST_INTERRUPTIONS - 1 or 0 do
        local band = interruptions * BAND
        local from = admits(interruptions) and band or band + now + 1
        local first = redis.call('ZRANGEBYSCORE', due[kind], from, band + BAND - 1, 'WITHSCORES',
          'LIMIT', 0, 1)
        earliest = math.min(earliest, (tonumber(first[2]) or math.huge) - band)
      end
    end
    first_of_all = math.min(first_of_all, math.max(earliest, opens))
  end
  return first_of_all < math.huge and first_of_all or -1
end

do
  local last = redis.call('HGET', sent, 'claim')
  local last_number = last and values.number(string.match(last, '^%d+')) or 0
  if last_number > tonumber(number) then
    return { 'ok', micros, -1, 0, reply, {}, 0 }
  end
  if last_number == tonumber(number) then
    local from = #number + 2
    waits = tonumber(string.sub(last, from, from)) or 0
    write_on_a_full_server()
    from = from + 1
    local fence_number = 0
    while from < #last do
      local id = string.sub(last, from, from + 15)
      local fence = redis.call('HGET', fences, id)
      local record = redis.call('HGET', jobs, id)
      if fence and #fence >= FENCE_BYTES and record and string.sub(fence, 1, 8) == nonce then
        redis.call('ZADD', run, now + lease, id)
        local time, mark
        fence_number, time = struct.unpack('>I8I8', fence, 9)
        mark = string.lower(string.sub(fence, FENCE_BYTES, FENCE_BYTES)) == 'k' and 'k' or ''
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, string.format('%.0f', time) .. mark, record
      end
      from = from + 16
    end
    return { 'ok', micros, in_lanes and now or next_due(), waits, reply, {}, fence_number }
  end
end
