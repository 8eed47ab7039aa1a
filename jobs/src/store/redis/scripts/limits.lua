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
  redis.call('HSET', lanes, CHANGED_SCOPES, '0')
end

local function limit_in(text)
  local is_read, limit = false, nil
  if text then
    is_read, limit = pcall(cjson.decode, text)
  end
  local read_limit, found = {}, is_read and type(limit) == 'table' and limit or {}
  for name, least in pairs({ running = 1, rate = 1, per_ms = 1, burst = 1, weight = 1 }) do
    local number = values.number(found[name])
    if number and number >= least and (name ~= 'weight' or number <= 1000) then
      read_limit[name] = number
    end
  end
  return read_limit
end

local function most_of(limit)
  return tonumber(limit.running) or math.huge
end

-- The time until which a hold lets no job start. A hold that is over is removed.
local function hold_in(name, value)
  local time = values.number(value) or 0
  if value and (time <= now or time > LATEST) then
    redis.call('HDEL', flow, name)
    time = 0
  end
  return time
end

-- For each kind: its flow, the limit of each partition, how many jobs of the flow may run, the rates of the flow and of the
-- queue by the names of their scopes, and the time until which it is held.
local flow_of, each, of_flow, rates_of, held_until, of_queue = {}, {}, {}, {}, {}, nil
do
  local names = { 'limit', 'hold' }
  for n = at, #ARGV do
    names[#names + 1], names[#names + 2] = 'flow:' .. ARGV[n], 'limit-each:' .. ARGV[n]
  end
  local stored = get_all(flow, names)
  local limit, hold = limit_in(stored[1]), hold_in('hold', stored[2])
  of_queue = most_of(limit)
  local rate_of_queue = rate_in(limit)
  names = {}
  for n = at, #ARGV do
    local kind, from = ARGV[n], 2 * (n - at)
    flow_of[kind] = values.flow(stored[from + 3], ARGV[flows_at + from])
    each[kind] = limit_in(stored[from + 4])
    names[#names + 1], names[#names + 2] = 'limit-flow:' .. flow_of[kind], 'hold-flow:' .. flow_of[kind]
  end
  stored = get_all(flow, names)
  for n = at, #ARGV do
    local kind, from = ARGV[n], 2 * (n - at)
    limit = limit_in(stored[from + 1] or ARGV[flows_at + from + 1])
    of_flow[kind], rates_of[kind] = most_of(limit), {}
    rates_of[kind]['limit'], rates_of[kind][names[from + 1]] = rate_of_queue, rate_in(limit)
    held_until[kind] = math.max(hold, hold_in(names[from + 2], stored[from + 2]))
  end
end

local function flow_prefix(kind)
  if not flow_of[kind] then
    flow_of[kind] = values.flow(redis.call('HGET', flow, 'flow:' .. kind), kind)
  end
  return string.char(#flow_of[kind]) .. flow_of[kind]
end

local function scope_of(kind, partition)
  return flow_prefix(kind) .. lane_of(kind, partition)
end

plain_scope = function(kind)
  return scope_of(kind, '')
end

local claims, running = redis.call('ZCARD', held), {}

-- How many claims have a scope that begins with this prefix.
local function running_of(prefix)
  if not running[prefix] then
    -- Greater than the rest of any member behind the prefix.
    local last = string.rep('\255', 17)
    running[prefix] = redis.call('ZLEXCOUNT', held, '[' .. prefix, '(' .. prefix .. last)
  end
  return running[prefix]
end

-- Says whether the queue or the flow is full. Then `is_any_full` is set.
local is_any_full = false

-- When the limits of the queue and of its flow allow one more claim of a kind. Infinite: when a claim has ended.
opens_at = function(kind)
  local may = claims < of_queue
    and (of_flow[kind] == math.huge or running_of(flow_prefix(kind)) < of_flow[kind])
  is_any_full = is_any_full or not may
  if not may then
    return math.huge
  end
  local time = held_until[kind]
  for scope, rate in pairs(rates_of[kind]) do
    time = math.max(time, token_time(scope, rate))
  end
  return time
end

may_run = function(kind)
  return opens_at(kind) <= now
end

-- Of a kind with a rate, a claim takes no more jobs than the caller can start soon.
fits = function(kind)
  return in_lanes > 0 or not is_blocking[kind] or next(rates_of[kind]) == nil
end

-- How many claims of a kind the limits allow, `most` at most.
local function allowed(kind, most)
  most = math.min(most, of_queue - claims)
  if of_flow[kind] < math.huge then
    most = math.min(most, of_flow[kind] - running_of(flow_prefix(kind)))
  end
  for scope, rate in pairs(rates_of[kind]) do
    most = tokens_left(scope, rate, most)
  end
  return most
end

-- Counts claims of this scope, and takes their tokens of the flow and of the queue.
local function count_claims(kind, scope, many)
  claims = claims + many
  for of, rate in pairs(rates_of[kind]) do
    for _ = 1, many do
      take_token(of, rate)
    end
  end
  for _, prefix in ipairs({ flow_prefix(kind), scope }) do
    if running[prefix] then
      running[prefix] = running[prefix] + many
    end
  end
end
