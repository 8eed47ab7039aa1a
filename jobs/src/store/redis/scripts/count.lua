-- Counts the jobs, schedules and keys of a queue.
--
-- Returns { 'ok', microseconds, pending jobs, claimed jobs, dead jobs, schedules, each kind and its number of
-- jobs that are not dead, jobs that are dead or kept, records, fences, keys, jobs that are overdue, for how many milliseconds
-- the first of them has been or -1 }.

local pending, overdue, oldest = 0, 0, -1
for _, key in pairs(due) do
  pending = pending + redis.call('ZCARD', key)
  local suspects = redis.call('ZCOUNT', key, BAND, '+inf') > 0
  for interruptions = 0, suspects and MOST_INTERRUPTIONS - 1 or 0 do
    local band = interruptions * BAND
    local due_before = '(' .. string.format('%.0f', band + now)
    overdue = overdue + redis.call('ZCOUNT', key, band, due_before)
    local first = redis.call('ZRANGEBYSCORE', key, band, due_before, 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if first then
      oldest = math.max(oldest, now - time_of(tonumber(first)))
    end
  end
end
return {
  'ok', micros, pending, redis.call('ZCARD', run), redis.call('ZLEXCOUNT', over, range_of(AS_DEAD)),
  redis.call('HLEN', schedules), redis.call('HGETALL', kinds), redis.call('ZLEXCOUNT', over, '[a', '(b'),
  redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys),
  overdue, oldest,
}
