-- Does each operation of the list in ARGV, and keeps the results.
--
-- ARGV from `at` on: for each operation its word (a row in `operations.rs`) and its arguments. An operation takes its
-- arguments from ARGV and returns one result, or one for each item of its list.
-- Returns { 'ok', microseconds, results, names of values that were set aside }. `sent` keeps the results for SENT_KEPT_MS,
-- under the place of the call in its batch, together with the number of the batch. `batch.lua` finds them there if the
-- call is sent again.
--
-- Needs: history, batch.
-- May lack: grouped.

while at <= #ARGV do
  answers[#answers + 1] = operations[args(1)]()
  if grouped then
    grouped.settle()
  end
end
if needs_places then
  return { 'places', micros, 1 }
end
settle()
write_history()
local answer = table.concat(answers)
redis.call('HSET', sent, place, number .. ':' .. answer)
redis.call('PEXPIRE', sent, SENT_KEPT_MS)
return { 'ok', micros, answer, values.named }
