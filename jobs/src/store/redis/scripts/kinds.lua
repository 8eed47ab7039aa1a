-- Adds kinds to the queue: each gets a count of its jobs, and has its own due set.
--
-- It has no prelude, since the prelude requires that the caller knows every kind.
-- The first kind of a queue also sets the layout of its keys, which `open.rs` compares.
-- KEYS: the hash of kinds; `meta`.
-- ARGV: the layout; the kinds to add.
-- Returns { 'kinds', microseconds, every kind }.

local time = redis.call('TIME')
for n = 2, #ARGV do
  -- A kind that exists is not written, so that this works on a full server.
  if redis.call('HEXISTS', KEYS[1], ARGV[n]) == 0 then
    redis.call('HSETNX', KEYS[2], 'layout', ARGV[1])
    redis.call('HSET', KEYS[1], ARGV[n], 0)
  end
end
return { 'kinds', time[1] * 1000000 + time[2], redis.call('HKEYS', KEYS[1]) }
