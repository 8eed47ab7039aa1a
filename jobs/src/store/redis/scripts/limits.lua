-- The limits of a claim: how many jobs of each scope are claimed, and when the next job of a scope with a rate may start.
--
-- `values/limit.rs` has the rules of rates. In `lanes`, the field TOKENS .. scope has the tokens of a scope, under the name
-- that the setting with its limit has or would have. Each rate that its claims follow has a line of six numbers: the time of the next token and the longest delay
-- in microseconds, between them how many were taken; and the rate, the period in milliseconds and the burst.
-- In `turn`, the members that begin with a zero byte are notes for a time. Eight bytes of time follow, and then a lane
-- whose first job is due then, that is parked until then, or whose weight may have changed; or a zero byte and a scope
-- whose tokens may be forgotten then.
--
-- Gives: rate_in, token_time, take_token, keep_tokens, look_at_notes, limit_in, most_of, hold_in, each, rates_of,
--   flow_prefix, running_of, is_any_full, allowed, count_claims, is_comparing.
-- Needs: fences, lanes, claim.

local rate_in, token_time, tokens_left, take_token, keep_tokens, look_at_notes
do
  local TOKENS, PARTS, LINES = '\0t', 32, 4
  local known, changed, micros_now = {}, {}, now * 1000

  local function rate_of(number, per, burst)
    if number < 1 or per < 1 then
      return nil
    end
    local spacing = math.ceil(per * 1000 / number)
    local tolerance = spacing * (burst - 1)
    return { number = number, per = per, burst = burst, spacing = spacing, tolerance = tolerance,
      longest_delay = math.max(math.floor(per * 1000 / PARTS), 1000), latest = tolerance + per * 1000 }
  end

  -- The rate in a limit, or nil.
  rate_in = function(limit)
    local number, per = tonumber(limit.rate), tonumber(limit.per_ms)
    return number and per and rate_of(number, per, math.max(tonumber(limit.burst) or 1, 1))
  end

  local function read(scope)
    local text = redis.call('HGET', lanes, TOKENS .. scope)
    local lines, words, is_ours = {}, {}, true
    for word in string.gmatch(text or '', '%S+') do
      local number = values.number(word, 2 ^ 63)
      words[#words + 1], is_ours = number, is_ours and number
      if #words == 6 then
        local rate = rate_of(words[4], words[5], math.max(words[6], 1))
        lines[#lines + 1] = rate and { next = words[1], taken = words[2], delay = words[3], rate = rate }
        words = {}
      end
    end
    if text and not (is_ours and #words == 0 and #lines > 0) then
      values.set_aside('HDEL', lanes, TOKENS .. scope, text)
      return {}
    end
    return lines
  end

  local function line_from(rate, next)
    return { next = next, taken = 0, delay = 0, rate = rate }
  end

  local function is_past(line)
    return line.next + line.rate.longest_delay < micros_now
  end

  -- The line of a rate, which comes before the others. If the rate has none, it begins with what is used up of the others.
  local function follow(lines, rate)
    local at, debt = nil, 0
    for n, line in ipairs(lines) do
      local its = line.rate
      if its.number == rate.number and its.per == rate.per and its.burst == rate.burst then
        at = n
      end
      debt = math.max(debt, (line.next - micros_now) / its.spacing)
    end
    local first = at and table.remove(lines, at)
      or line_from(rate, micros_now + math.min(math.ceil(debt * rate.spacing), rate.latest))
    table.insert(lines, 1, first)
    -- As long as the debt of another rate lasts, one other line stays: the clock was not set back.
    local has_debt = first.next > micros_now + rate.tolerance + rate.spacing + rate.longest_delay
    for n = #lines, 2, -1 do
      if n > LINES or is_past(lines[n]) and not (has_debt and n == 2) then
        table.remove(lines, n)
      end
    end
    return at ~= 1
  end

  -- The tokens of a scope with this rate.
  local function tokens_of(scope, rate)
    if known[scope] then
      return known[scope]
    end
    local its = { lines = read(scope) }
    its.is_new = #its.lines == 0
    local is_other = follow(its.lines, rate)
    if is_other and not its.is_new then
      changed[scope] = its
    end
    for n, line in ipairs(its.lines) do
      local of = line.rate
      local farthest = #its.lines == 1 and of.tolerance + of.spacing or of.latest
      if line.next > micros_now + farthest + of.longest_delay then
        -- The clock was set back.
        its.lines[n] = line_from(of, micros_now + of.spacing)
        changed[scope] = its
      end
    end
    known[scope] = its
    return its
  end

  -- The first millisecond in which a job of the scope may start.
  token_time = function(scope, rate)
    return rate and math.ceil((tokens_of(scope, rate).lines[1].next - rate.tolerance) / 1000) or 0
  end

  local function take(line)
    local rate = line.rate
    local delay = math.max(micros_now - line.next, 0)
    if delay > rate.longest_delay then
      line.next, line.taken, line.delay = micros_now, 0, 0
    else
      line.delay = math.max(line.delay, delay)
    end
    line.next, line.taken = line.next + rate.spacing, line.taken + 1
    if line.taken >= rate.number then
      line.next, line.taken, line.delay = line.next + line.delay, 0, 0
    end
  end

  -- How many jobs of the scope may start now, `most` at most.
  tokens_left = function(scope, rate, most)
    local line, many = tokens_of(scope, rate).lines[1], 0
    local copy = { next = line.next, taken = line.taken, delay = line.delay, rate = rate }
    while many < most and math.ceil((copy.next - rate.tolerance) / 1000) <= now do
      take(copy)
      many = many + 1
    end
    return many
  end

  take_token = function(scope, rate)
    if rate then
      local its = tokens_of(scope, rate)
      for n, line in ipairs(its.lines) do
        take(line)
        if n > 1 then
          line.next = math.min(line.next, micros_now + line.rate.latest)
        end
      end
      changed[scope] = its
    end
  end

  -- Leaves a note for the time at which the last of these lines is past.
  local function forget_at(scope, lines)
    local last = 0
    for _, line in ipairs(lines) do
      last = math.max(last, line.next + line.rate.longest_delay)
    end
    redis.call('ZADD', turn, '0', '\0' .. struct.pack('>I8', math.ceil(last / 1000) + 1) .. '\0' .. scope)
  end

  keep_tokens = function()
    local fields = {}
    for scope, its in pairs(changed) do
      local texts = {}
      for n, line in ipairs(its.lines) do
        local rate = line.rate
        texts[n] = string.format('%.0f %.0f %.0f %.0f %.0f %.0f', line.next, line.taken, line.delay, rate.number, rate.per,
          rate.burst)
      end
      fields[#fields + 1], fields[#fields + 2] = TOKENS .. scope, table.concat(texts, ' ')
      if its.is_new then
        forget_at(scope, its.lines)
        its.is_new = false
      end
    end
    if #fields > 0 then
      fields[#fields + 1], fields[#fields + 2] = NOTED, string.format('%.0f', now)
      call_all('HSET', lanes, fields)
    end
    changed = {}
  end

  -- Looks at the notes whose time has come, a page of them, and gives their lanes to `look`. Returns whether more may be
  -- there.
  look_at_notes = function(look)
    local PAGE = 256
    local noted = redis.call('ZRANGEBYLEX', turn, '[\0', '(\0' .. struct.pack('>I8', now + 1), 'LIMIT', '0', PAGE)
    local names = {}
    for _, note in ipairs(noted) do
      local name = string.sub(note, 10)
      if string.byte(name, 1) ~= 0 then
        if values.is_lane(name) then
          names[#names + 1] = name
        else
          values.set_aside('ZREM', turn, note)
        end
      else
        local scope = string.sub(name, 2)
        local lines, are_past = read(scope), true
        for _, line in ipairs(lines) do
          are_past = are_past and is_past(line)
        end
        if not are_past then
          forget_at(scope, lines)
        else
          redis.call('HDEL', lanes, TOKENS .. scope)
          if known[scope] then
            known[scope].is_new = true
          end
        end
      end
    end
    look(names)
    call_all('ZREM', turn, noted)
    return #noted == PAGE
  end
end

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

-- Counts claims of this scope. For the jobs that start, takes tokens of the flow and of the queue.
local function count_claims(kind, scope, many, that_start)
  claims = claims + many
  for of, rate in pairs(rates_of[kind]) do
    for _ = 1, that_start do
      take_token(of, rate)
    end
  end
  for _, prefix in ipairs({ flow_prefix(kind), scope }) do
    if running[prefix] then
      running[prefix] = running[prefix] + many
    end
  end
end

-- Compares `held` with the claims, after the first limit was stored, a flow has changed, or someone changed a key by hand.
-- A call compares a page. Until all pages are compared, nothing is claimed.

local is_comparing = redis.call('HGET', lanes, CHANGED_SCOPES)
if is_comparing or claims ~= redis.call('ZCARD', run) then
  -- The scope of a claim without a fence.
  local UNKNOWN = '\0\0\0'
  local COMPARED = 256

  -- The scope that a claim has by its fence, and the fence with that scope if it has another one.
  local function scope_by(fence)
    local claim = read_fence(fence)
    if not claim then
      return UNKNOWN
    end
    local partition = ''
    if claim.scope then
      local lane = string.sub(claim.scope, string.byte(claim.scope, 1) + 2)
      partition = string.sub(lane, #kind_of(lane) + 2)
    end
    local scope = scope_of(claim.kind, partition)
    if scope == claim.scope then
      return scope
    end
    local kind_bytes, key_bytes = string.byte(fence, FENCE_BYTES + 14, FENCE_BYTES + 15)
    local head = string.sub(fence, FENCE_BYTES + 1, FENCE_BYTES + HEAD_BYTES + kind_bytes + key_bytes)
    local mark = string.lower(string.sub(fence, FENCE_BYTES, FENCE_BYTES)) == 'k' and 'K' or '+'
    return scope, string.sub(fence, 1, FENCE_BYTES - 1) .. mark .. head .. scope
  end

  -- Compares a page. Returns whether it was the last one, and whether anything was wrong.
  local function compare(from)
    local claimed = {}
    for _, id in ipairs(redis.call('ZRANGE', run, from, from + COMPARED - 1)) do
      if #id == 16 then
        claimed[#claimed + 1] = id
      else
        values.set_aside('ZREM', run, id)
      end
    end
    local counted = redis.call('ZRANGE', held, from, from + COMPARED - 1)
    local found, places, changed = get_all(fences, claimed), {}, {}
    for n, id in ipairs(claimed) do
      local scope, fence = scope_by(found[n])
      places[#places + 1], places[#places + 2] = '0', scope .. id
      if fence then
        changed[#changed + 1], changed[#changed + 2] = id, fence
      end
    end
    local gone = {}
    for _, place in ipairs(counted) do
      local id = string.sub(place, -16)
      if not values.has_parts(place, 3, 16) then
        values.set_aside('ZREM', held, place)
      elseif not redis.call('ZSCORE', run, id) or scope_by(redis.call('HGET', fences, id)) .. id ~= place then
        gone[#gone + 1] = place
      end
    end
    call_all('HSET', fences, changed)
    call_all('ZREM', held, gone)
    local many = redis.call('ZCARD', held)
    call_all('ZADD', held, places)
    local is_changed = #gone > 0 or redis.call('ZCARD', held) ~= many
    return #claimed < COMPARED and #counted < COMPARED, is_changed
  end

  -- Where the next page begins, and '+' if a page before it was wrong. Renewals move claims between pages, so the last of
  -- several pages is the end only if none of them was wrong.
  local from, was_wrong = string.match(is_comparing or '0', '^(%d+)(%+?)$')
  if is_comparing and not values.number(from) then
    values.set_aside('HDEL', lanes, CHANGED_SCOPES, is_comparing)
  end
  from = values.number(from) or 0
  local is_last, is_wrong = compare(from)
  is_wrong = is_wrong or was_wrong == '+'
  claims, running = redis.call('ZCARD', held), {}
  is_comparing = not (is_last and (from == 0 or not is_wrong) and claims == redis.call('ZCARD', run))
  if is_comparing then
    local mark = is_wrong and '+' or ''
    redis.call('HSET', lanes, CHANGED_SCOPES, is_last and '0' or string.format('%.0f', from + COMPARED) .. mark)
    limit = 0
  else
    redis.call('HDEL', lanes, CHANGED_SCOPES)
  end
end
