-- Does what a list of changes says, one after the other, and keeps the answer.

while at <= #ARGV do
  answers[#answers + 1] = operations[ARGV[at]]()
end
settle()
local answer = table.concat(answers)
redis.call('HSET', sent, place, number .. ':' .. answer)
redis.call('PEXPIRE', sent, SENT_KEPT_MS)
return { 'ok', micros, answer }
