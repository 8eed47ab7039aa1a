-- Claims the first jobs that are due, of the kinds that the caller handles. In their order a job counts as if it had
-- become due earlier by the head start of its kind.
--
-- A suspect is a job that was interrupted. The claim passes over suspects that it may not take, and takes
-- later jobs instead.
--
-- If the answer to a claim was lost, the claim is sent again under its number, and is answered with the jobs
-- that it has claimed. A copy that arrives after a later claim claims nothing, since no caller waits for it.
--
-- ARGV from `at` on:
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
-- Returns { 'ok', microseconds, when the next job is due or -1, 1 if a suspect waits, claimed jobs, ids }:
-- id, fence and record of each claimed job; the ids of unreadable records that were set aside.

local number, limit, lease, crashed_once, poison_pill, nonce = args(6)
local most_bytes, has_copy, last_try, blocking, is_blocking_digits, rooms, head_starts, plain = args(8)
limit, lease, most_bytes = tonumber(limit), tonumber(lease), tonumber(most_bytes)
crashed_once, blocking = tonumber(crashed_once), tonumber(blocking)
plain = tonumber(plain) or math.huge
poison_pill, has_copy, last_try = poison_pill == '1', has_copy == '1', last_try == '1'
local reply = {}
local waits = 0

local is_blocking = {}
for n = at, #ARGV do
  is_blocking[ARGV[n]] = string.sub(is_blocking_digits, n - at + 1, n - at + 1) == '1'
end

local room, next_kind = {}, at
for its_room in string.gmatch(rooms, '%d+') do
  room[ARGV[next_kind]] = tonumber(its_room)
  next_kind = next_kind + 1
end

-- The head start of each kind that has one.
local head_start = {}
next_kind = at
for its_head_start in string.gmatch(head_starts, '%d+') do
  if its_head_start ~= '0' then
    head_start[ARGV[next_kind]] = tonumber(its_head_start)
  end
  next_kind = next_kind + 1
end

-- Whether the claim has room for a job of this kind.
local function has_room(kind)
  return room[kind] > 0 and (blocking > 0 or not is_blocking[kind]) and (plain > 0 or head_start[kind])
end

-- Whether a kind has pending suspects.
local suspected = {}

local function has_suspects(kind)
  if suspected[kind] == nil then
    suspected[kind] = redis.call('ZCOUNT', due[kind], BAND, '+inf') > 0
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

-- A claim of so many jobs makes the server keep `run` in a tree. A set of up to 128 short members is a list otherwise,
-- which the server searches for each of them: 128 jobs cost it 2 us each, and 0.4 us in a tree.
local MANY = 32

-- A member that is too long for a list. The set becomes a tree with it, and stays one without it.
local LONG_MEMBER = string.rep('-', 65)

local function add_to_run(lease_end, ends)
  local to_tree = #ends >= 2 * MANY and redis.call('ZCARD', run) <= 128
  if to_tree then
    redis.call('ZADD', run, lease_end, LONG_MEMBER)
  end
  call_all('ZADD', run, ends)
  if to_tree then
    redis.call('ZREM', run, LONG_MEMBER)
  end
end

local given = 0

local function give(id, fence, record)
  reply[given + 1], reply[given + 2], reply[given + 3] = id, fence, record
  given = given + 3
end

-- A fence has more than 64 bytes for nearly every job, so that the server keeps the fences in a hash table, and not in a
-- list that it searches.
local LONG_ENOUGH = 32

local function write_fence(number, nonce, time, has_key, record)
  local kind_bytes, key_bytes = string.byte(record, 14, 15)
  return nonce .. struct.pack('>I8I8', number, time) .. owner .. (has_key and 'k' or '-')
    .. string.sub(record, 1, math.max(LONG_ENOUGH, HEAD_BYTES + kind_bytes + key_bytes))
end

-- When the next job is due that this caller could claim, or -1. Three do not count: a due suspect that has to
-- wait; a job of a kind without room; and a job of a kind that blocks a thread while all threads are busy. The
-- end of a run leads to the next claim.
local function next_due()
  local earliest = math.huge
  for n = at, #ARGV do
    local kind = ARGV[n]
    if has_room(kind) then
      local head = tonumber(redis.call('ZRANGE', due[kind], 0, 0, 'WITHSCORES')[2]) or math.huge
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
  end
  return earliest < math.huge and earliest or -1
end

local last = redis.call('HGET', sent, 'claim')
local last_number = last and tonumber(string.match(last, '^%d+')) or 0
if last_number > tonumber(number) then
  return { 'ok', micros, -1, 0, reply, {} }
end
if last_number == tonumber(number) then
  local from = #number + 2
  waits = tonumber(string.sub(last, from, from))
  write_on_a_full_server()
  from = from + 1
  while from < #last do
    local id = string.sub(last, from, from + 15)
    local fence = redis.call('HGET', fences, id)
    local record = redis.call('HGET', jobs, id)
    if fence and record and string.sub(fence, 1, 8) == nonce then
      redis.call('ZADD', run, now + lease, id)
      give(id, fence, record)
    end
    from = from + 16
  end
  return { 'ok', micros, next_due(), waits, reply, {} }
end

-- The candidates: for each kind one list of the jobs that were never interrupted, and one list for each number
-- of interruptions. Each is in the order of due time. A list of suspects reads one more than may be claimed,
-- which shows that a suspect waits.
local lists = {}

local function read_list(kind, interruptions, most)
  local band = interruptions * BAND
  local found = redis.call('ZRANGEBYSCORE', due[kind], band, band + now, 'WITHSCORES', 'LIMIT', 0, most)
  lists[#lists + 1] = {
    kind = kind, interruptions = interruptions, band = band, found = found, cursor = 1, records = {},
    -- The rank of a job is its score less this.
    before_rank = band + (head_start[kind] or 0),
  }
end

for n = at, #ARGV do
  local kind = ARGV[n]
  local most = math.min(limit, room[kind], is_blocking[kind] and blocking or limit)
  if not head_start[kind] then
    most = math.min(most, plain)
  end
  if most > 0 then
    read_list(kind, 0, most)
    if has_suspects(kind) then
      read_list(kind, 1, math.min(crashed_once, most) + 1)
      for interruptions = 2, MOST_INTERRUPTIONS - 1 do
        read_list(kind, interruptions, 2)
      end
    end
  end
end

-- How many records of a list are read at once. They may be large, and may not be claimed.
local AHEAD = 16

local function record_of(list)
  local known, found, cursor = list.records, list.found, list.cursor
  if not known[cursor] then
    local ids = {}
    for n = cursor, math.min(cursor + 2 * AHEAD, #found) - 1, 2 do
      ids[#ids + 1] = found[n]
    end
    for n, record in ipairs(get_all(jobs, ids)) do
      known[cursor + 2 * n - 2] = record
    end
  end
  return known[cursor]
end

local function first_list()
  local best, rank = nil, math.huge
  for _, list in ipairs(lists) do
    local score = tonumber(list.found[list.cursor + 1])
    if score and not list.is_passed_over and score - list.before_rank < rank then
      best, rank = list, score - list.before_rank
    end
  end
  return best
end

-- The length of the key in the record of a pending job of this kind. Nil if the record cannot be read.
local function key_bytes_of(id, record, kind)
  if #id ~= 16 or #record < HEAD_BYTES then
    return nil
  end
  local flags = string.byte(record, 1)
  if flags > CALLERS_ID and (has(flags, ENDED) or flags > CALLERS_ID + EXTRA) then
    return nil
  end
  local kind_bytes, key_bytes, high, low = string.byte(record, 14, 17)
  local needed = HEAD_BYTES + kind_bytes + key_bytes + high * 256 + low
  local is_sound = kind_bytes == #kind
    and #record >= needed
    and (flags <= CALLERS_ID or has_extra(record, needed))
    and string.sub(record, HEAD_BYTES + 1, HEAD_BYTES + kind_bytes) == kind
  return is_sound and key_bytes or nil
end

local function add(lists_of, kind, id)
  local its = lists_of[kind] or {}
  lists_of[kind] = its
  its[#its + 1] = id
end

local ids, dues, taken, has_key, of_kind, bytes = {}, {}, {}, {}, {}, 0
-- `empty`: for each kind, ids to remove from its due set: their record was removed by hand or cannot be read.
-- `senseless`: ids whose record cannot be read.
local empty, senseless, senseless_records = {}, {}, {}
while #ids < limit and bytes < most_bytes do
  local list = first_list()
  if not list then
    break
  end
  local kind, interruptions = list.kind, list.interruptions
  if not has_room(kind) then
    list.is_passed_over = true
  elseif interruptions > 0 and not admits(interruptions) then
    list.is_passed_over = true
    waits = 1
  else
    local id, record = list.found[list.cursor], record_of(list)
    local time = tonumber(list.found[list.cursor + 1]) - list.band
    local key_bytes = record and key_bytes_of(id, record, kind)
    list.cursor = list.cursor + 2
    if not record then
      add(empty, kind, id)
    elseif not key_bytes then
      add(empty, kind, id)
      senseless[#senseless + 1] = id
      senseless_records[#senseless] = record
    else
      if interruptions > 0 then
        take_note(interruptions)
      end
      if is_blocking[kind] then
        blocking = blocking - 1
      end
      room[kind] = room[kind] - 1
      if not head_start[kind] then
        plain = plain - 1
      end
      bytes = bytes + #record
      local n = #ids + 1
      ids[n], dues[n], taken[n] = id, time, record
      local from = HEAD_BYTES + #kind
      has_key[n] = key_bytes > 0
        and redis.call('HGET', keys, string.sub(record, from + 1, from + key_bytes)) == id
      add(of_kind, kind, id)
    end
  end
end

if #senseless > 0 then
  -- Fails here, before any write, if a key has a wrong type.
  redis.call('HLEN', unreadable)
  redis.call('HLEN', jobs)
end
for kind, its in pairs(empty) do
  write_on_a_full_server()
  call_all('ZREM', due[kind], its)
  count(kind, -#its)
end
for n, id in ipairs(senseless) do
  set_aside(id, senseless_records[n])
end
settle()

if #ids > 0 then
  -- Fails here, before any write of the claim, if a key has a wrong type.
  redis.call('HLEN', fences)
  redis.call('ZCARD', run)
  redis.call('HLEN', meta)
  -- A full server must still run the jobs that it has.
  write_on_a_full_server()
  local ends = {}
  local lease_end = string.format('%.0f', now + lease)
  for n, id in ipairs(ids) do
    ends[2 * n - 1], ends[2 * n] = lease_end, id
  end
  -- `run` comes first. So if a right is missing and the script fails at any command, each job is still in a set:
  -- without the right to `ZADD` nothing has changed; without `HSET` a job is reclaimed when its lease ends.
  add_to_run(lease_end, ends)
  for kind, its in pairs(of_kind) do
    call_all('ZREM', due[kind], its)
  end
  local first = redis.call('HINCRBY', meta, 'claims', #ids) - #ids
  local tokens = {}
  for n, id in ipairs(ids) do
    local record = taken[n]
    local fence = write_fence(first + n, nonce, dues[n], has_key[n], record)
    tokens[2 * n - 1], tokens[2 * n] = id, fence
    give(id, fence, record)
  end
  call_all('HSET', fences, tokens)
  redis.call('HSET', sent, 'claim', number .. ':' .. waits .. table.concat(ids))
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
elseif has_copy then
  -- An earlier copy of this claim may still arrive. So the number is kept even though this one claimed nothing:
  -- the copy is then ignored.
  write_on_a_full_server()
  redis.call('HSET', sent, 'claim', number .. ':' .. waits)
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
end
return { 'ok', micros, next_due(), waits, reply, senseless }
