-- Counts.
--
-- Returns { 'ok', microseconds, pending jobs, claimed jobs, dead jobs, schedules, kinds and their numbers of
-- jobs, times of death, records, fences, keys }.

local pending = 0
for _, key in pairs(due) do
  pending = pending + redis.call('ZCARD', key)
end
return {
  'ok', micros, pending, redis.call('ZCARD', run), redis.call('ZCARD', dead),
  redis.call('HLEN', schedules), redis.call('HGETALL', kinds), redis.call('ZCARD', died),
  redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys),
}
