-- The limits of a claim, and how many jobs of each scope are claimed.

if redis.call('HLEN', flow) == 0 then
  local has_own = false
  for n = flows_at + 1, flows_at + 2 * tonumber(many_flows) - 1, 2 do
    has_own = has_own or ARGV[n] ~= ''
  end
  if not has_own then
    return { 'plain', micros, 0 }
  end
end
-- The claim fails here, before the other writes, if a key has a wrong type. Its writes need little memory, so a full
-- server must take them.
redis.call('ZCARD', wait)
redis.call('ZCARD', turn)
redis.call('HLEN', lanes)
redis.call('ZCARD', run)
redis.call('HLEN', fences)
redis.call('HLEN', keys)
redis.call('HLEN', unreadable)
write_on_a_full_server()
if redis.call('HLEN', flow) == 0 then
  redis.call('HSET', flow, '', '1')
end

local function limit_in(text)
  local is_read, limit = false, nil
  if text then
    is_read, limit = pcall(cjson.decode, text)
  end
  return is_read and type(limit) == 'table' and limit or {}
end

local function most_of(limit)
  return tonumber(limit.running) or math.huge
end

-- For each kind: its flow, how many jobs of the flow may run, and the limit of each partition.
local flow_of, of_flow, each, of_queue = {}, {}, {}, nil
do
  local names = { 'limit' }
  for n = at, #ARGV do
    names[#names + 1], names[#names + 2] = 'flow:' .. ARGV[n], 'limit-each:' .. ARGV[n]
  end
  local stored = get_all(flow, names)
  of_queue = most_of(limit_in(stored[1]))
  names = {}
  for n = at, #ARGV do
    local kind, from = ARGV[n], 2 * (n - at)
    flow_of[kind], each[kind] = stored[from + 2] or ARGV[flows_at + from], limit_in(stored[from + 3])
    names[#names + 1] = 'limit-flow:' .. flow_of[kind]
  end
  stored = get_all(flow, names)
  for n = at, #ARGV do
    local limit = stored[n - at + 1]
    of_flow[ARGV[n]] = limit and most_of(limit_in(limit)) or tonumber(ARGV[flows_at + 2 * (n - at) + 1]) or math.huge
  end
end

local function flow_prefix(kind)
  if not flow_of[kind] then
    flow_of[kind] = redis.call('HGET', flow, 'flow:' .. kind) or kind
  end
  return string.char(#flow_of[kind]) .. flow_of[kind]
end

local function scope_of(kind, partition)
  return flow_prefix(kind) .. lane_of(kind, partition)
end

plain_scope = function(kind)
  return scope_of(kind, '')
end

-- Greater than the rest of any member of `held` behind a prefix.
local LAST = string.rep('\255', 17)

local claims, running = redis.call('ZCARD', held), {}

-- How many claims have a scope that begins with this prefix.
local function running_of(prefix)
  if not running[prefix] then
    running[prefix] = redis.call('ZLEXCOUNT', held, '[' .. prefix, '(' .. prefix .. LAST)
  end
  return running[prefix]
end

-- Whether the limits of the queue and of its flow allow one more claim of a kind. If they refuse one, `is_any_full`
-- is set.
local is_any_full = false

may_run = function(kind)
  local may = claims < of_queue
    and (of_flow[kind] == math.huge or running_of(flow_prefix(kind)) < of_flow[kind])
  is_any_full = is_any_full or not may
  return may
end

-- Counts a claim of this scope.
local function count_claim(kind, scope)
  claims = claims + 1
  for _, prefix in ipairs({ flow_prefix(kind), scope }) do
    if running[prefix] then
      running[prefix] = running[prefix] + 1
    end
  end
end
