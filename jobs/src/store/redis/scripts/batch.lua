-- The beginning of a script that changes something. `apply.lua` is its end.
--
-- If the answer to a call was lost, the call is sent again under its number and its place. It changes nothing
-- then, and is answered as before. A copy that arrives after a later call does nothing, since no caller waits
-- for it.
--
-- ARGV from `at` on: the place of the call in its batch; the number of the batch; the place of the call that
-- this one continues, or ''; 1 or 0, whether its operations need memory; the list of operations.
-- Returns: see `apply.lua`. The results are empty if the call came too late, or if the call that it continues
-- was not done.
--
-- Gives: place, number, operations, answers, needs_places.
-- May lack: grouped.

local place, number, before, needs_memory = args(4)

-- The number and the results of the last call in a place.
local function last_in(slot)
  local digits, answer = string.match(redis.call('HGET', sent, slot) or '', '^(%d+):(.*)$')
  return values.number(digits) or 0, answer
end

local last_number, last_answer = last_in(place)
if last_number == tonumber(number) then
  return { 'ok', micros, last_answer }
end
-- A call that continues another one of the batch does nothing unless that one was done.
if last_number > tonumber(number) or before ~= '' and last_in(before) ~= tonumber(number) then
  return { 'ok', micros, '' }
end

-- A wrong type of a key must be found before the first write. A call that is one list of inserts needs no check:
-- it reads the keys that it writes to.
if ARGV[at] == 'insert_many' and at + 2 + 3 * tonumber(ARGV[at + 2]) == #ARGV then
  redis.call('HLEN', history)
else
  check_types(grouped)
end
-- A full server refuses the operations that need memory, and no others.
if needs_memory == '0' then
  write_on_a_full_server()
end
if grouped then
  -- Most changes add to a sorted set. If the user has lost the right, this fails before the first write. It adds nothing,
  -- since no member is ''.
  redis.call('ZADD', run, 'XX', '0', '')
end

local operations, answers = {}, {}
-- A claim is counted, and the script has no functions for that.
local needs_places
