-- Counts the jobs, schedules and keys of a queue.
--
-- Returns { 'ok', microseconds, pending jobs, claimed jobs, dead jobs, schedules, each kind and its number of
-- jobs that are not dead, times of death, records, fences, keys }.

local pending = 0
for _, key in pairs(due) do
  pending = pending + redis.call('ZCARD', key)
end
return {
  'ok', micros, pending, redis.call('ZCARD', run), redis.call('ZCARD', dead),
  redis.call('HLEN', schedules), redis.call('HGETALL', kinds), redis.call('ZCARD', died),
  redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys),
}
