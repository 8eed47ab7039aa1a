-- Begins leases anew. Answers a letter for each claim: '1' if it is held, '0' if it is not.

local lease = tonumber(ARGV[at])
at = at + 1
local answers = {}
write_on_a_full_server()
for n = at, #ARGV, 2 do
  local id = ARGV[n]
  local fence = redis.call('HGET', fences, id)
  local held = fence and string.sub(fence, 1, TOKEN_BYTES) == ARGV[n + 1]
  if held then
    redis.call('ZADD', run, 'XX', 'GT', now + lease, id)
  end
  answers[#answers + 1] = held and '1' or '0'
end
return { 'ok', micros, table.concat(answers) }
