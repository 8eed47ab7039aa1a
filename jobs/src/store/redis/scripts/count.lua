-- Counts: the jobs that wait, the claimed, the dead, the schedules; and the jobs of each kind.

local waiting = 0
for _, key in pairs(due) do
  waiting = waiting + redis.call('ZCARD', key)
end
return {
  'ok', micros, waiting, redis.call('ZCARD', run), redis.call('ZCARD', dead),
  redis.call('HLEN', schedules), redis.call('HGETALL', kinds), redis.call('ZCARD', died),
  redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys),
}
