-- Lists of jobs that have ended: dead ones, and others that are kept.
--
-- Every such job is in one list, and a list is one text: a letter that says how its jobs ended; the length and the name
-- of their kind; the time of the end, in eight bytes; their ids; how many bytes they count against the bound of the
-- kind, in four. The letter is 1 for completed and for expired jobs, because both share the bounds of their kind.
-- `over` has each list, in the order of the text. `ended` has it by the date after which its jobs go. `ended` also has
-- ids of 16 bytes, which are remembered or reserved.
--
-- A busy kind keeps many jobs that complete in one call, so such jobs share lists: `MOST` at most have one. Every other
-- list has one job. A completed job on whose end a caller waits is in a list with the letter WAITED_FOR. After a minute
-- the next job of the kind that completes moves it among the others (`trim`), which the bounds of the kind count.
-- `counters` has their number, `kept:KIND`, and their bytes, `kept_bytes:KIND`.
--
-- Gives: kept_lists.
-- Needs: records.

-- A table, since a script has no more than 200 local variables. `MOST`: how many jobs a list has at most.
local kept_lists = { MOST = 40, WAITED_FOR = 'w' }

-- The beginning of each list of a kind whose jobs ended so. `how`: an ending, or WAITED_FOR.
function kept_lists.head(how, kind)
  return how .. string.char(#kind) .. kind
end

-- The first and the last member of `over` that may be a list of this kind.
function kept_lists.range(how, kind)
  local head = kept_lists.head(how, kind)
  return '[' .. head, '[' .. head .. '\255'
end

function kept_lists.new(how, kind, ended_at, ids, bytes)
  return kept_lists.head(how, kind) .. struct.pack('>I8', ended_at) .. table.concat(ids) .. struct.pack('>I4', bytes)
end

-- When the jobs of a list ended, how many there are, how many bytes they count, and the place of the first id. If a user
-- wrote the text and it is no list: no time, and no jobs.
function kept_lists.read(list)
  local first = (string.byte(list, 2) or 0) + 11
  local number = (#list - first - 3) / 16
  local ended_at = number >= 1 and number == math.floor(number) and values.time(list, first - 8)
  if not ended_at then
    return nil, 0, 0, #list
  end
  return ended_at, number, (struct.unpack('>I4', list, #list - 3)), first
end

function kept_lists.kind_of(list)
  return string.sub(list, 3, 2 + (string.byte(list, 2) or 0))
end

-- Whether the jobs of a list count against the bounds of their kind.
function kept_lists.is_counted(list)
  return string.sub(list, 1, 1) == tostring(AS_COMPLETED)
end

function kept_lists.ids(list)
  local _, number, _, first = kept_lists.read(list)
  local ids = {}
  for n = 1, number do
    ids[n] = string.sub(list, first + 16 * n - 16, first + 16 * n - 1)
  end
  return ids
end

-- How many bytes of a job that has ended count against the bound of its kind.
function kept_lists.bytes_of(job)
  return #job.payload - (has(job.flags, EXTRA) and 2 or 0) + #job.result + #job.errors
end

-- The letter of the lists of jobs with this ending.
function kept_lists.letter(ending)
  return ending == AS_EXPIRED and AS_COMPLETED or ending
end

-- The list of a job that has ended. Nil if it is in none.
function kept_lists.of(id, job)
  local letter = kept_lists.letter(job.ending)
  local is_completed = letter == AS_COMPLETED
  for _, how in ipairs({ letter, is_completed and kept_lists.WAITED_FOR or nil }) do
    local alone = kept_lists.new(how, job.kind, job.ended_at, { id }, kept_lists.bytes_of(job))
    if redis.call('ZSCORE', over, alone) then
      return alone
    end
  end
  local head = kept_lists.head(letter, job.kind) .. struct.pack('>I8', job.ended_at)
  local of_this_time = is_completed and redis.call('ZRANGEBYLEX', over, '[' .. head, '[' .. head .. string.rep('\255', 17)) or {}
  for _, list in ipairs(of_this_time) do
    for _, its in ipairs(string.find(list, id, 1, true) and kept_lists.ids(list) or {}) do
      if its == id then
        return list
      end
    end
  end
end

-- Changes two counters of a kind: of its completed jobs that the bounds count, and of their bytes.
function kept_lists.count(kind, jobs_more, bytes_more)
  values.add(counters, 'kept:' .. kind, jobs_more, function()
    local first, final = kept_lists.range(AS_COMPLETED, kind)
    local many = 0
    repeat
      local lists = redis.call('ZRANGEBYLEX', over, first, final, 'LIMIT', 0, AT_ONCE)
      for _, list in ipairs(lists) do
        many = many + select(2, kept_lists.read(list))
      end
      first = '(' .. (lists[#lists] or '')
    until #lists < AT_ONCE
    return many
  end)
  values.add(counters, 'kept_bytes:' .. kind, bytes_more)
end
