-- Takes candidates of a claim. `take_plain.lua` or `take_lanes.lua` says which, and `write_claim.lua` writes the claim.

-- A fence has more than 64 bytes, so that the server keeps the fences in a hash table, and not in a list that it searches.
local LONG_ENOUGH = 32

-- `time`: the due time in digits. `head`: the record to the end of its key. `scope`: that of a counted claim.
local function write_fence(number, time, has_key, head, scope)
  local mark = scope and (has_key and 'K' or '+') or has_key and 'k' or '-'
  return nonce .. struct.pack('>I8I8', number, tonumber(time)) .. owner .. mark .. head .. (scope or '')
    .. string.rep('\0', LONG_ENOUGH - #head)
end

local function add(lists_of, kind, id)
  local its = lists_of[kind] or {}
  lists_of[kind] = its
  its[#its + 1] = id
end

-- All jobs of a claim have the same number in their fences. A later claim has a greater one. It is the time of the claim
-- in microseconds, unless the clock has been set back, or reads a later year than the numbers of Lua can count from.
local fence_number
do
  local LATEST_NUMBER_FROM_TIME = 4e15
  fence_number = (values.number(redis.call('HGET', meta, 'claims')) or 0) + 1
  fence_number = math.max(fence_number, math.min(micros, LATEST_NUMBER_FROM_TIME))
end
local lease_end = string.format('%.0f', now + lease)
local sub = string.sub
-- The claimed jobs: their ids; the arguments that add them to `run`, `fences` and `held`; bytes of records.
local ids, ends, tokens, scopes, taken, bytes = {}, {}, {}, {}, 0, 0
-- `empty`: for each kind, ids to remove from its due set: their record was removed by hand or cannot be read. `foreign`: the
-- arguments of `values.set_aside` for values that cannot be read.
local empty, foreign = {}, {}
-- For each kind, the claimed jobs that were in lanes.
local claimed_in_lanes = {}

-- Drops a member of the due set of a kind that leads to no job of that kind. `record`: what it leads to, or false.
local function drop(kind, id, record)
  if #id == 16 then
    add(empty, kind, id)
  else
    -- It was never counted.
    foreign[#foreign + 1] = { 'ZREM', due[kind], id }
  end
  if record then
    foreign[#foreign + 1] = { 'HDEL', jobs, id, record }
  end
end

-- The due time in the score of a list, in digits. Someone may have written one that is no time.
local function time_in(list, score)
  if score ~= list.score then
    local is_time = list.band == 0 and not string.find(score, '%D')
    list.score = score
    list.time = is_time and score or string.format('%.0f', math.max(math.floor(tonumber(score)) - list.band, 0))
  end
  return list.time
end

-- Takes the next jobs of a list, this many at most.
local function take(list, most)
  local kind, interruptions, fresh, claimed, many = list.kind, list.interruptions, list.fresh, list.claimed, #list.claimed
  local scope = plain_scope and plain_scope(kind)
  for cursor = list.cursor, list.cursor + most - 1 do
    if bytes >= most_bytes then
      break
    end
    local id, record, time = list.ids[cursor], record_of(list, cursor), time_in(list, list.scores[cursor])
    local is_fresh = record and sub(record, 1, #fresh) == fresh
    local key_bytes = is_fresh and 0 or record and key_bytes_of(record, kind)
    list.cursor = cursor + 1
    if not key_bytes or #id ~= 16 then
      drop(kind, id, record)
    else
      if interruptions > 0 then
        take_note(interruptions)
      end
      bytes = bytes + #record
      local fence
      if is_fresh then
        -- Fresh jobs of one due time have the same fence.
        if list.fence_time ~= time then
          list.fence_time, list.fence = time, write_fence(fence_number, time, false, fresh, scope)
        end
        fence = list.fence
      else
        local head = sub(record, 1, HEAD_BYTES + #kind + key_bytes)
        local has_key = key_bytes > 0 and redis.call('HGET', keys, sub(head, HEAD_BYTES + #kind + 1)) == id
        fence = write_fence(fence_number, time, has_key, head, scope)
        time = has_key and time .. 'k' or time
      end
      local pair = taken + taken
      local triple = pair + taken
      reply[triple + 1], reply[triple + 2], reply[triple + 3] = id, time, record
      ends[pair + 1], ends[pair + 2], tokens[pair + 1], tokens[pair + 2] = lease_end, id, id, fence
      if scope then
        scopes[pair + 1], scopes[pair + 2] = '0', scope .. id
      end
      taken, many = taken + 1, many + 1
      ids[taken], claimed[many] = id, id
    end
  end
end
