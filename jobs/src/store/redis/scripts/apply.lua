-- Does what a list of changes says, one after the other, and keeps the answer.
--
-- The operations are those of `change.lua` and `ends.lua`. Each moves `at` past its own arguments and
-- answers its letters. The answer is kept under the place of the call in its batch, with the number of the
-- batch, for as long as `SENT_KEPT_MS` says: `change.lua` finds it there when the call comes again.

while at <= #ARGV do
  answers[#answers + 1] = operations[ARGV[at]]()
end
settle()
local answer = table.concat(answers)
redis.call('HSET', sent, place, number .. ':' .. answer)
redis.call('PEXPIRE', sent, SENT_KEPT_MS)
return { 'ok', micros, answer }
