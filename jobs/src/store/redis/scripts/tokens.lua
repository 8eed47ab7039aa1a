-- The tokens of the scopes with a rate: when the next job of a scope may start. `values/rate.rs` has the rules.
--
-- In `lanes`, the field TOKENS .. scope has the tokens of a scope, under the name that the setting with its limit has or
-- would have: the time of the next token and the longest delay in microseconds, between them how many were taken; and
-- the rate, the period in milliseconds and the burst that they follow.
-- In `turn`, the members that begin with a zero byte are notes for a time. Eight bytes of time follow, and then a lane
-- whose first job is due then, that is parked until then, or whose weight may have changed; or a zero byte and a scope
-- whose tokens may be forgotten then.

local rate_in, token_time, tokens_left, take_token, keep_tokens, look_at_notes
do
  local TOKENS, PARTS = '\0t', 32
  local known, changed, micros_now = {}, {}, now * 1000

  -- The rate in a limit, or nil.
  rate_in = function(limit)
    local number, per = tonumber(limit.rate), tonumber(limit.per_ms)
    if not number or not per or number < 1 or per < 1 then
      return nil
    end
    local burst = math.max(tonumber(limit.burst) or 1, 1)
    local spacing = math.ceil(per * 1000 / number)
    return { number = number, per = per, burst = burst, spacing = spacing, tolerance = spacing * (burst - 1),
      longest_delay = math.max(math.floor(per * 1000 / PARTS), 1000) }
  end

  local function read(scope)
    local text = redis.call('HGET', lanes, TOKENS .. scope)
    local its, n = {}, 0
    for word in string.gmatch(text or '', '%S+') do
      its[n + 1] = values.number(word, 2 ^ 63)
      n = its[n + 1] and n + 1 or 7
    end
    if text and n ~= 6 then
      values.set_aside('HDEL', lanes, TOKENS .. scope, text)
    end
    return n == 6 and { next = its[1], taken = its[2], delay = its[3], number = its[4], per = its[5], burst = its[6] }
  end

  -- The tokens of a scope with this rate.
  local function tokens_of(scope, rate)
    if known[scope] then
      return known[scope]
    end
    local its = read(scope)
    local farthest = micros_now + rate.tolerance + rate.spacing
    if not its then
      its = { next = micros_now, taken = 0, delay = 0, is_new = true }
    elseif its.number ~= rate.number or its.per ~= rate.per or its.burst ~= rate.burst then
      its = { next = math.min(its.next, micros_now + rate.spacing), taken = 0, delay = 0 }
      changed[scope] = its
    elseif its.next > farthest + rate.longest_delay then
      -- The clock was set back.
      its = { next = micros_now + rate.spacing, taken = 0, delay = 0 }
      changed[scope] = its
    end
    its.rate = rate
    known[scope] = its
    return its
  end

  -- The first millisecond in which a job of the scope may start.
  token_time = function(scope, rate)
    return rate and math.ceil((tokens_of(scope, rate).next - rate.tolerance) / 1000) or 0
  end

  local function take(its, rate)
    local delay = math.max(micros_now - its.next, 0)
    if delay > rate.longest_delay then
      its.next, its.taken, its.delay = micros_now, 0, 0
    else
      its.delay = math.max(its.delay, delay)
    end
    its.next, its.taken = its.next + rate.spacing, its.taken + 1
    if its.taken >= rate.number then
      its.next, its.taken, its.delay = its.next + its.delay, 0, 0
    end
  end

  -- How many jobs of the scope may start now, `most` at most.
  tokens_left = function(scope, rate, most)
    local its, many = tokens_of(scope, rate), 0
    local copy = { next = its.next, taken = its.taken, delay = its.delay }
    while many < most and math.ceil((copy.next - rate.tolerance) / 1000) <= now do
      take(copy, rate)
      many = many + 1
    end
    return many
  end

  take_token = function(scope, rate)
    if rate then
      local its = tokens_of(scope, rate)
      take(its, rate)
      changed[scope] = its
    end
  end

  local function forget_at(scope, next, longest_delay)
    local time = math.ceil((next + longest_delay) / 1000) + 1
    redis.call('ZADD', turn, '0', '\0' .. struct.pack('>I8', time) .. '\0' .. scope)
  end

  keep_tokens = function()
    local fields = {}
    for scope, its in pairs(changed) do
      local rate = its.rate
      fields[#fields + 1] = TOKENS .. scope
      fields[#fields + 1] = string.format('%.0f %.0f %.0f %.0f %.0f %.0f', its.next, its.taken, its.delay, rate.number,
        rate.per, rate.burst)
      if its.is_new then
        forget_at(scope, its.next, rate.longest_delay)
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
        local its = read(scope)
        local longest_delay = its and math.max(math.floor(its.per * 1000 / PARTS), 1000)
        if its and its.next + longest_delay >= micros_now then
          forget_at(scope, its.next, longest_delay)
        else
          redis.call('HDEL', lanes, TOKENS .. scope)
        end
      end
    end
    look(names)
    call_all('ZREM', turn, noted)
    return #noted == PAGE
  end
end
