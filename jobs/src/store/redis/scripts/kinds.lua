-- Makes kinds known: each has a key of its own, and a number of jobs. It has no prelude, since the prelude
-- wants every kind.
--
-- KEYS: the kinds.
-- ARGV: kinds.
-- Returns { 'kinds', microseconds, every kind }.

local time = redis.call('TIME')
for n = 1, #ARGV do
  -- What needs no memory works on a full server.
  if redis.call('HEXISTS', KEYS[1], ARGV[n]) == 0 then
    redis.call('HSET', KEYS[1], ARGV[n], 0)
  end
end
return { 'kinds', time[1] * 1000000 + time[2], redis.call('HKEYS', KEYS[1]) }
