-- Renews leases, from the present on.
--
-- ARGV from `at` on: the lease in milliseconds; id and token of each claim.
-- Returns { 'ok', microseconds, results }: for each claim DONE, or CLAIM_LOST if it is no longer held.
--
-- Needs: results.

local lease = tonumber(args(1))
local results = {}
write_on_a_full_server()
for n = at, #ARGV, 2 do
  local id = ARGV[n]
  local fence = redis.call('HGET', fences, id)
  local is_held = fence and string.sub(fence, 1, TOKEN_BYTES) == ARGV[n + 1]
  if is_held then
    redis.call('ZADD', run, 'XX', 'GT', now + lease, id)
  end
  results[#results + 1] = is_held and DONE or CLAIM_LOST
end
return { 'ok', micros, table.concat(results) }
