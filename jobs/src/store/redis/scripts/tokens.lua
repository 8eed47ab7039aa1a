-- The tokens of the scopes with a rate: when the next job of a scope may start. `values/limit.rs` has the rules.
--
-- In `lanes`, the field TOKENS .. scope has the tokens of a scope, under the name that the setting with its limit has or
-- would have. Each rate that its claims follow has a line of six numbers: the time of the next token and the longest delay
-- in microseconds, between them how many were taken; and the rate, the period in milliseconds and the burst.
-- In `turn`, the members that begin with a zero byte are notes for a time. Eight bytes of time follow, and then a lane
-- whose first job is due then, that is parked until then, or whose weight may have changed; or a zero byte and a scope
-- whose tokens may be forgotten then.

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
