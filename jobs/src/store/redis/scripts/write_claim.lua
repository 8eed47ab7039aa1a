-- Writes a claim.
--
-- Needs: claim, candidates.

if #foreign > 0 then
  -- Fails here, before any write, if a key has a wrong type.
  redis.call('HLEN', unreadable)
  redis.call('HLEN', jobs)
end
for kind, its in pairs(empty) do
  write_on_a_full_server()
  call_all('ZREM', due[kind], its)
  count(kind, -#its)
end
for _, its in ipairs(foreign) do
  values.set_aside(unpack(its))
end
settle()

if taken > 0 then
  -- A claim of at least this many jobs makes the server keep `run` in a tree. Without that, a set of up to 128 short
  -- members is a list, and the server searches the list for each member.
  local MANY = 32

  -- A member that is too long for a list. The set becomes a tree with it, and stays one without it.
  local LONG_MEMBER = string.rep('-', 65)

  local function add_to_run()
    local to_tree = #ends >= 2 * MANY and redis.call('ZCARD', run) <= 128
    if to_tree then
      redis.call('ZADD', run, lease_end, LONG_MEMBER)
    end
    call_all('ZADD', run, ends)
    if to_tree then
      redis.call('ZREM', run, LONG_MEMBER)
    end
  end

  -- Fails here, before any write of the claim, if a key has a wrong type.
  redis.call('HLEN', fences)
  redis.call('ZCARD', run)
  -- A full server must still run the jobs that it has.
  write_on_a_full_server()
  -- `run` comes first. So if a right is missing and the script fails at any command, each job is still in a set:
  -- without the right to `ZADD` nothing has changed; without `HSET` a job is reclaimed when its lease ends.
  add_to_run()
  call_all('ZADD', held, scopes)
  for _, list in ipairs(lists) do
    call_all('ZREM', due[list.kind], list.claimed)
  end
  for kind, its in pairs(claimed_in_lanes) do
    call_all('ZREM', due[kind], its)
  end
  redis.call('HSET', meta, 'claims', string.format('%.0f', fence_number))
  call_all('HSET', fences, tokens)
  redis.call('HSET', sent, 'claim', number .. ':' .. waits .. table.concat(ids))
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
elseif has_copy then
  -- An earlier copy of this claim may still arrive. So the number is kept even though this one claimed nothing:
  -- the copy is then ignored.
  write_on_a_full_server()
  redis.call('HSET', sent, 'claim', number .. ':' .. waits)
  redis.call('PEXPIRE', sent, SENT_KEPT_MS)
end
local earliest = next_due()
if at_end then
  earliest = at_end(earliest)
end
return { 'ok', micros, earliest, waits, reply, values.named, fence_number }
