-- Counts the jobs, schedules and keys of a queue.
--
-- Returns { 'ok', microseconds, pending jobs, claimed jobs, dead jobs, schedules, each kind and its number of
-- jobs that are not dead, jobs that are dead or kept, records, fences, keys, jobs that are overdue, for how many milliseconds
-- the first of them has been or -1, each kind with five values: its name, its pending, dead and overdue jobs, for how
-- long the first of these has been or -1, how many more places in lanes there are than jobs in lanes,
-- how many more places of claims there are than claims }.
--
-- Needs: records, kept_lists.

local pending, overdue, oldest = 0, 0, -1
local each = {}
local in_lanes, dead, kept = 0, 0, 0
for kind, key in pairs(due) do
  local its_pending, its_overdue, its_oldest = redis.call('ZCARD', key), 0, -1
  local suspects = redis.call('ZCOUNT', key, BAND, '+inf') > 0
  in_lanes = in_lanes + (suspects and redis.call('ZCOUNT', key, COMING, '+inf') or 0)
  for n = 0, suspects and COMING / BAND or 0 do
    local band = n * BAND
    local due_before = '(' .. string.format('%.0f', band + now)
    its_overdue = its_overdue + redis.call('ZCOUNT', key, band, due_before)
    local first = redis.call('ZRANGEBYSCORE', key, band, due_before, 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if first then
      its_oldest = math.max(its_oldest, now - time_of(tonumber(first)))
    end
  end
  pending, overdue, oldest = pending + its_pending, overdue + its_overdue, math.max(oldest, its_oldest)
  -- Each list of a dead job has one job.
  local its_dead = redis.call('ZLEXCOUNT', over, kept_lists.range(AS_DEAD, kind))
  dead, kept = dead + its_dead, kept + (values.number(redis.call('HGET', counters, 'kept:' .. kind)) or 0)
  for _, value in ipairs({ kind, its_pending, its_dead, its_overdue, its_oldest }) do
    each[#each + 1] = value
  end
end
-- The others that are kept have lists of their own too.
kept = kept + redis.call('ZLEXCOUNT', over, '[' .. AS_CANCELLED, '(' .. AS_CANCELLED + 1)
kept = kept + redis.call('ZLEXCOUNT', over, '[' .. kept_lists.WAITED_FOR, '[' .. kept_lists.WAITED_FOR .. '\255')
return {
  'ok', micros, pending, redis.call('ZCARD', run), dead, redis.call('HLEN', schedules), redis.call('HGETALL', kinds),
  dead + kept, redis.call('HLEN', jobs), redis.call('HLEN', fences), redis.call('HLEN', keys), overdue, oldest, each,
  redis.call('ZCARD', wait) - in_lanes, math.max(redis.call('ZCARD', held) - redis.call('ZCARD', run), 0),
}
