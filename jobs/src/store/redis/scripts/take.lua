-- Takes the candidates of a claim that may be claimed, and writes the claim.

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

-- A fence has more than 64 bytes, so that the server keeps the fences in a hash table, and not in a list that it searches.
local LONG_ENOUGH = 32

-- `time`: the due time in digits. `head`: the record to the end of its key.
local function write_fence(number, time, has_key, head)
  return nonce .. struct.pack('>I8I8', number, tonumber(time)) .. owner .. (has_key and 'k' or '-') .. head
    .. string.rep('\0', LONG_ENOUGH - #head)
end

local function add(lists_of, kind, id)
  local its = lists_of[kind] or {}
  lists_of[kind] = its
  its[#its + 1] = id
end

-- All jobs of a claim have the same number in their fences. A later claim has a greater one. It is the time of the claim
-- in microseconds, unless the clock has been set back, or reads a later year than the numbers of Lua can count from.
local LATEST_NUMBER_FROM_TIME = 4e15
local fence_number = (tonumber(redis.call('HGET', meta, 'claims')) or 0) + 1
fence_number = math.max(fence_number, math.min(micros, LATEST_NUMBER_FROM_TIME))
local lease_end = string.format('%.0f', now + lease)
local sub = string.sub
-- The claimed jobs: their ids; the arguments that add them to `run` and to `fences`; bytes of records.
local ids, ends, tokens, taken, bytes = {}, {}, {}, 0, 0
-- `empty`: for each kind, ids to remove from its due set: their record was removed by hand or cannot be read.
-- `senseless`: ids whose record cannot be read.
local empty, senseless, senseless_records = {}, {}, {}

-- Takes the next jobs of a list, this many at most.
local function take(list, most)
  local kind, interruptions, fresh, claimed, many = list.kind, list.interruptions, list.fresh, list.claimed, #list.claimed
  for cursor = list.cursor, list.cursor + most - 1 do
    if bytes >= most_bytes then
      break
    end
    local id, record, time = list.ids[cursor], record_of(list, cursor), list.scores[cursor]
    local is_fresh = record and sub(record, 1, #fresh) == fresh
    local key_bytes = is_fresh and 0 or record and key_bytes_of(record, kind)
    list.cursor = cursor + 1
    if not record then
      add(empty, kind, id)
    elseif not key_bytes or #id ~= 16 then
      add(empty, kind, id)
      senseless[#senseless + 1] = id
      senseless_records[#senseless] = record
    else
      if interruptions > 0 then
        take_note(interruptions)
        time = string.format('%.0f', tonumber(time) - list.band)
      end
      bytes = bytes + #record
      local fence
      if is_fresh then
        -- Fresh jobs of one due time have the same fence.
        if list.fence_time ~= time then
          list.fence_time, list.fence = time, write_fence(fence_number, time, false, fresh)
        end
        fence = list.fence
      else
        local head = sub(record, 1, HEAD_BYTES + #kind + key_bytes)
        local has_key = key_bytes > 0 and redis.call('HGET', keys, sub(head, HEAD_BYTES + #kind + 1)) == id
        fence = write_fence(fence_number, time, has_key, head)
        time = has_key and time .. 'k' or time
      end
      local pair = taken + taken
      local triple = pair + taken
      reply[triple + 1], reply[triple + 2], reply[triple + 3] = id, time, record
      ends[pair + 1], ends[pair + 2], tokens[pair + 1], tokens[pair + 2] = lease_end, id, id, fence
      taken, many = taken + 1, many + 1
      ids[taken], claimed[many] = id, id
    end
  end
end

while taken < limit and bytes < most_bytes do
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
    local most, before = 1, taken
    if #lists == 1 and interruptions == 0 then
      most = math.min(limit - taken, room[kind], #list.ids - list.cursor + 1)
      most = math.min(most, is_blocking[kind] and blocking or most, head_start[kind] and most or plain)
    end
    take(list, most)
    local by = taken - before
    room[kind] = room[kind] - by
    blocking = blocking - (is_blocking[kind] and by or 0)
    plain = plain - (head_start[kind] and 0 or by)
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

if taken > 0 then
  -- Fails here, before any write of the claim, if a key has a wrong type.
  redis.call('HLEN', fences)
  redis.call('ZCARD', run)
  -- A full server must still run the jobs that it has.
  write_on_a_full_server()
  -- `run` comes first. So if a right is missing and the script fails at any command, each job is still in a set:
  -- without the right to `ZADD` nothing has changed; without `HSET` a job is reclaimed when its lease ends.
  add_to_run(lease_end, ends)
  for _, list in ipairs(lists) do
    call_all('ZREM', due[list.kind], list.claimed)
  end
  redis.call('HSET', meta, 'claims', string.format('%.0f', fence_number))
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
return { 'ok', micros, next_due(), waits, reply, senseless, fence_number }
