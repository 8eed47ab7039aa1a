-- The beginning of nearly every script: the keys, the present, the kinds, the counts and the notifications.
--
-- A server makes the functions of a script anew in each call, and that takes longer than most commands. So a script
-- consists of the parts that it needs: `scripts.rs` lists them. A part uses only the parts before it.
--
-- Every key that a script uses must be in KEYS, and each kind has its own key. So if the caller does not name
-- all kinds, the script writes nothing and returns them.
--
-- KEYS: the twenty-five below in their order, then the due set of each kind that ARGV names.
-- ARGV: the present in milliseconds, or '' for the server's clock; the channel of notifications; the owner,
-- which identifies the calling process; how long dead jobs and ids are kept, in milliseconds; 1 or 0, whether the history
-- counts what the caller does; the number of kinds; each kind. The arguments of the script itself follow, from `at` on.
-- Returns { 'kinds', microseconds, every kind } if the caller does not name all kinds. Otherwise the script
-- returns { 'ok', microseconds, .. }.

local sent, jobs, run, fences, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ended, over, counters, schedules = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local cancel_requested, kinds, meta, unreadable = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local settings, dead_by_error, nodes, history = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local progress = KEYS[18]
-- Those of partitions and limits, see `lanes.lua`.
local wait, turn, lanes, held, flow = KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23]
-- Those of groups, see `groups.lua`.
local groups, members = KEYS[24], KEYS[25]

local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
end
local channel, owner, keep_dead = ARGV[2], ARGV[3], tonumber(ARGV[4])
local counts_history = tonumber(ARGV[5]) == 1

-- The due set of each kind: the key of its pending jobs.
local due = {}
local known = tonumber(ARGV[6])
local stale = redis.call('HLEN', kinds) ~= known
for n = 1, known do
  local kind = ARGV[6 + n]
  -- The other names are no kinds: someone wrote them by hand.
  if kind ~= '' and #kind < 256 then
    due[kind] = KEYS[25 + n]
  end
  stale = stale or redis.call('HEXISTS', kinds, kind) == 0
end
if stale then
  return { 'kinds', micros, redis.call('HKEYS', kinds) }
end
-- Where the arguments of the script begin.
local at = 7 + known

-- The next arguments of the script, as many as `many` says.
local function args(many)
  at = at + many
  return unpack(ARGV, at - many, at - 1)
end

-- The flags of a record. `records.rs` has its format.
local CALLERS_ID, ENDED, EXTRA, PARTITION, GROUP, GIVES_RESULT = 1, 2, 4, 8, 16, 32
-- A mark of the row of a group: it keeps results.
local KEEPS_RESULTS = 16
local HEAD, HEAD_BYTES = '>BI4I4I4BBI2', 17
-- The fence of a claim: nonce and number, which are its token; due time, owner, whether the job has its
-- key; and the beginning of the record, at least to the end of the key.
local TOKEN_BYTES, FENCE_BYTES = 16, 33
local MOST_INTERRUPTIONS = 5
-- How long the last answers to a process are kept. In digits, like other constant arguments of commands: a server makes
-- digits of a number, which takes it half as long as a command.
local SENT_KEPT_MS = '3600000'

-- A pending job that was interrupted is a suspect. Its score in the due set of its kind is its due time plus
-- one BAND for each interruption, at most MOST_INTERRUPTIONS - 1. So suspects follow the other jobs, and a
-- claim reads each band separately. Every due time is less than BAND, and a score holds the sum exactly.
local BAND = 1000000000000000

-- A pending job with a partition has a score above all others, also if it was interrupted: its due time plus COMING.
local COMING = 5 * BAND

-- The latest time: the end of the year 9999.
local LATEST = 253402300799999

-- The due time in a score. No value is trusted: a score that is not finite is due at once.
local function time_of(score)
  local time = math.floor(score % BAND)
  return time <= LATEST and time or 0
end

local function has(flags, flag)
  return math.floor(flags / flag) % 2 == 1
end

-- How many arguments of a list one command takes, since the Lua stack is limited.
local AT_ONCE = 128

local function call_all(command, key, list)
  for from = 1, #list, AT_ONCE do
    redis.call(command, key, unpack(list, from, math.min(from + AT_ONCE - 1, #list)))
  end
end

-- The values of these fields, in their order. A missing value is false.
local function get_all(hash, fields)
  if #fields > 0 and #fields <= AT_ONCE then
    return redis.call('HMGET', hash, unpack(fields))
  end
  local values = {}
  for from = 1, #fields, AT_ONCE do
    local to = math.min(from + AT_ONCE - 1, #fields)
    for n, value in ipairs(redis.call('HMGET', hash, unpack(fields, from, to))) do
      values[from + n - 1] = value
    end
  end
  return values
end

-- Fails if a user has given a key another type. A script calls it before it writes, since its writes would stay
-- if it failed later. `with_groups`: the script writes to the keys of groups too,
-- and a job that it makes pending may have a partition.
local function check_types(with_groups)
  -- The command that returns the size of each key, by its type.
  local SIZE = { 'HLEN', 'HLEN', 'ZCARD', 'HLEN', 'HLEN', 'ZCARD', 'ZCARD', 'HLEN', 'HLEN', 'SCARD',
    'HLEN', 'HLEN', 'HLEN', 'HLEN', 'ZCARD', 'HLEN', 'HLEN', 'HLEN', 'ZCARD', 'ZCARD', 'HLEN', 'ZCARD', 'HLEN',
    'HLEN', 'ZCARD' }
  local has_lanes = redis.call('HLEN', flow) > 0
  for n = 1, #KEYS do
    local is_of_groups = n == 24 or n == 25
    if n <= 18 or n <= 21 and with_groups or n <= 23 and has_lanes or is_of_groups and with_groups or n > 25 then
      redis.call(SIZE[n] or 'ZCARD', KEYS[n])
    end
  end
end

-- Makes a full server accept the writes of this script: the server refuses a write that may need memory only if
-- the script has not written before. This write needs no memory and changes nothing.
local function write_on_a_full_server()
  redis.call('HDEL', meta, '')
end

-- Whether a record has an extra behind its first `bytes` bytes.
local function has_extra(record, bytes)
  local high, low = string.byte(record, bytes + 1, bytes + 2)
  return low and #record >= bytes + 2 + high * 256 + low
end

-- Reads values that another program may have written. A value that cannot be read counts as none. The script that meets
-- it on its way to a write sets it aside: so it blocks nothing, and its name is in an event and in `check`.
-- `named`: the names of those that this script has set aside.
local values = { named = {} }

-- A section of an extra: its content, and the places of its first and its last byte. '' if there is none. `from`: where the
-- length of the extra is. `values/job.rs` has the format.
function values.section(text, from, wanted)
  local byte = string.byte
  local high, low = byte(text, from, from + 1)
  local last, section_at = low and from + 1 + high * 256 + low or 0, from + 4
  while section_at + 2 <= last do
    local section, its_high, its_low = byte(text, section_at, section_at + 2)
    local to = section_at + 2 + its_high * 256 + its_low
    if section == wanted then
      return string.sub(text, section_at + 3, to), section_at, to
    end
    section_at = to + 1
  end
  return ''
end

-- A whole number: from its digits, or from JSON. Nil if it is none, or if it is not less than `bound`: without one, if Lua
-- does not have it exactly.
function values.number(value, bound)
  local number = value
  if type(value) == 'string' then
    number = #value < 20 and string.find(value, '^%-?%d+$') and tonumber(value)
  end
  local is_whole = type(number) == 'number' and number == math.floor(number)
  return is_whole and math.abs(number) < (bound or 2 ^ 53) and number or nil
end

-- A time in eight bytes, from `from` on. Nil if the text has none there.
function values.time(text, from)
  local time = #text >= from + 7 and struct.unpack('>I8', text, from)
  return time and time <= LATEST and time or nil
end

-- Whether a text is parts with their lengths before them, `parts` of them, and `rest` bytes.
function values.has_parts(text, parts, rest)
  local from = 1
  for _ = 1, parts do
    from = from + 1 + (string.byte(text, from) or #text)
  end
  return from + rest == #text + 1
end

-- Whether a text is a lane: a kind and a partition. `lanes.lua` makes them.
function values.is_lane(text)
  return values.has_parts(text, 2, 0) and due[string.sub(text, 2, 1 + string.byte(text, 1))] ~= nil
end

-- The flow of a kind. `text`: the one that is stored.
function values.flow(text, kind)
  return text and text ~= '' and #text < 256 and text or kind
end

do
  -- The most values in `unreadable`, and the most bytes of a value. Records have no bound, since they are jobs.
  local MOST, MOST_BYTES = 1000, 4096

  -- Moves a value to `unreadable`: a field of a hash, or a member of a set, with the command that removes it. `value`: that
  -- of the field. Its field there is the name of its key behind the prefix, a colon, and the field or member.
  function values.set_aside(command, key, field, value)
    local name = string.sub(key, #jobs - 3) .. ':' .. field
    if key ~= jobs then
      name, value = string.sub(name, 1, MOST_BYTES), string.sub(value or '', 1, MOST_BYTES)
    end
    write_on_a_full_server()
    if key == jobs or redis.call('HLEN', unreadable) < MOST then
      redis.call('HSET', unreadable, name, value)
    end
    redis.call(command, key, field)
    values.named[#values.named + 1] = string.sub(name, 1, 300)
  end
end

-- The cursor or the time in a mark of `lanes`: digits. `text`: its value, or false. A mark that cannot be read begins anew.
function values.mark(field, text)
  if text and not (#text < 20 and string.find(text, '^%d+$')) then
    values.set_aside('HDEL', lanes, field, text)
    return '0'
  end
  return text
end

-- Adds to a number in a hash. If there is no number, it begins anew: with what `anew` returns, or with `by`.
function values.add(key, field, by, anew)
  local sum = redis.pcall('HINCRBY', key, field, by)
  if type(sum) ~= 'table' then
    return
  end
  local value = redis.call('HGET', key, field)
  if not value or values.number(value) then
    -- The error is another one.
    redis.call('HINCRBY', key, field, by)
    return
  end
  values.set_aside('HDEL', key, field, value)
  redis.call('HSET', key, field, string.format('%.0f', anew and anew() or math.max(by, 0)))
end

-- For each kind: the change of its number of jobs, its earliest due time before the script (its head), and the
-- earliest due time that the script has written. Jobs with a partition do not count: `lowest_in_lanes` is the earliest due
-- time that the script has made the first of a lane.
local counts, heads, lowest, lowest_in_lanes = {}, {}, {}, math.huge

local function count(kind, by)
  counts[kind] = (counts[kind] or 0) + by
end

-- Reads the head of a kind, before the script writes to its due set.
local function learn_head(kind)
  if heads[kind] == nil then
    heads[kind] = tonumber(redis.call('ZRANGE', due[kind], '0', '0', 'WITHSCORES')[2]) or math.huge
    lowest[kind] = math.huge
  end
end

-- Notes a due time of a kind, before the script writes it.
local function note_head(kind, time)
  learn_head(kind)
  if time < lowest[kind] then
    lowest[kind] = time
  end
end

-- Publishes a notification: a word, a time, the owner. The server may refuse it,
-- since the other processes poll within a second in any case.
local function publish(what)
  redis.pcall('PUBLISH', channel, what .. ' ' .. owner)
end

-- Writes the counts, and notifies the other processes if a job is due earlier than any was.
local function settle()
  for kind, by in pairs(counts) do
    if by ~= 0 then
      values.add(kinds, kind, by, function()
        -- The jobs of a kind are pending or claimed.
        local number = redis.call('ZCARD', due[kind])
        for _, fence in ipairs(redis.call('HVALS', fences)) do
          local from = FENCE_BYTES + HEAD_BYTES
          local its = string.sub(fence, from + 1, from + (string.byte(fence, FENCE_BYTES + 14) or 0))
          number = number + (its == kind and 1 or 0)
        end
        return number
      end)
    end
  end
  local earliest = lowest_in_lanes
  for kind, head in pairs(heads) do
    if lowest[kind] < head and lowest[kind] < earliest then
      earliest = lowest[kind]
    end
  end
  if earliest < math.huge then
    publish('due ' .. string.format('%.0f', earliest))
  end
end
