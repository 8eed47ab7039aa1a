-- Counts the jobs, schedules and keys of a queue.
--
-- Returns { 'ok', microseconds, pending jobs, claimed jobs, dead jobs, schedules, each kind and its number of
-- jobs that are not dead, jobs that are dead or kept, records, fences, keys }.

local pending = 0
for _, key in pairs(due) do
  pending = pending + redis.call('ZCARD', key)
end
return {
  'ok', micros, pending, redis.call('ZCARD', run), redis.call('ZLEXCOUNT', over, range_of(AS_DEAD)),
  redis.call('HLEN', schedules), redis.call('HGETALL', kinds), redis.call('ZLEXCOUNT', over, '[a', '(b'),
  redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys),
}
