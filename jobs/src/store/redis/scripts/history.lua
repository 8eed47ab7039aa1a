-- The history: what happened in each minute, by kind. `store/history.rs` says how the rows look, and does the same for
-- the other stores.
--
-- A script notes each event, and calls `write_history` at its end. That makes the functions that few calls need.
--
-- Gives: INSERTED_JOB, COMPLETED, RETRIED, SNOOZED, DEAD, CANCELLED_JOB, INTERRUPTED, EXPIRED, LATE, TOOK, FIGURES,
--   note_figure, figures_of, note, write_history.

local INSERTED_JOB, COMPLETED, RETRIED, SNOOZED, DEAD, CANCELLED_JOB, INTERRUPTED, EXPIRED = 0, 1, 2, 3, 4, 5, 6, 7
local LATE, TOOK, FIGURES = 8, 23, 38
local MOST_KINDS, OTHER, MINUTES_KEPT, HOURS_KEPT = 200, 'other', 48, 90

-- For each kind: its figures by their number.
local noted = {}

local function note_figure(of, figure, by)
  of[figure] = (of[figure] or 0) + by
end

local function figures_of(kind)
  local of = noted[kind]
  if not of then
    of = {}
    noted[kind] = of
  end
  return of
end

-- Counts events of a kind.
local function note(kind, figure, by)
  if counts_history then
    note_figure(figures_of(kind), figure, by)
  end
end

-- Writes what the script has noted.
local function write_history()
  if next(noted) == nil then
    return
  end

  -- Adds the figures that some bytes say to `sums`.
  local function read_figures(bytes, sums)
    local from = 1
    while from < #bytes do
      local figure, value, unit = string.byte(bytes, from), 0, 1
      -- A longer number is damage: its upper bytes are left out.
      local most = 2 ^ 42
      local byte
      repeat
        from = from + 1
        byte = string.byte(bytes, from) or 0
        value = value + (unit <= most and byte % 128 * unit or 0)
        unit = math.min(unit * 128, 2 * most)
      until byte < 128
      if figure < FIGURES and value > 0 then
        note_figure(sums, figure, value)
      end
      from = from + 1
    end
  end

  local function figures_bytes(sums)
    local bytes = {}
    for figure, rest in pairs(sums) do
      bytes[#bytes + 1] = string.char(figure)
      while rest >= 128 do
        bytes[#bytes + 1] = string.char(rest % 128 + 128)
        rest = math.floor(rest / 128)
      end
      bytes[#bytes + 1] = string.char(rest)
    end
    return string.sub(table.concat(bytes), 1, 255)
  end

  -- Adds figures to a part of a row. A new part goes to the front.
  local function with(value, slot, added)
    local from, before, after = 1, '', value
    local sums = {}
    while from < #value do
      local its_slot, length = string.byte(value, from, from + 1)
      local last = from + 1 + length
      if its_slot == slot and last <= #value then
        read_figures(string.sub(value, from + 2, last), sums)
        before, after = string.sub(value, 1, from - 1), string.sub(value, last + 1)
        break
      end
      from = last + 1
    end
    for figure, by in pairs(added) do
      note_figure(sums, figure, by)
    end
    local figures = figures_bytes(sums)
    return before .. string.char(slot, #figures) .. figures .. after
  end

  -- Notes that a kind gets a row for an hour, and folds its old rows. False: the kind gets none, because too many others
  -- have some.
  local function begin_hour(kind, hour)
    local function row(field)
      return redis.call('HGET', history, field) or ''
    end

    -- The hours and days of which a kind has rows, as five bytes each.
    local function spans_of(index)
      local spans = {}
      for from = 1, #index - 4, 5 do
        spans[#spans + 1] = string.sub(index, from, from + 4)
      end
      return spans
    end

    local function span(tag, at)
      return tag .. struct.pack('>I4', at)
    end

    local function at_of(its_span)
      return (struct.unpack('>I4', its_span, 2))
    end

    local function is_hour(its_span)
      return string.sub(its_span, 1, 1) == 'm'
    end

    -- The kinds that have rows.
    local function kinds_with_rows()
      local value, kinds_found, from = row('k'), {}, 1
      while from <= #value do
        local length = string.byte(value, from)
        kinds_found[#kinds_found + 1] = string.sub(value, from + 1, from + length)
        from = from + 1 + length
      end
      return kinds_found
    end

    local function put_kinds(kinds_found)
      local value = {}
      for n, kind in ipairs(kinds_found) do
        value[n] = string.char(#kind) .. kind
      end
      redis.call('HSET', history, 'k', table.concat(value))
    end

    -- Removes the rows of a kind that has none of the last 90 days. Looks for one once an hour.
    local function make_room(kinds_found, hour)
      local this_hour = struct.pack('>I4', hour)
      if row('w') == this_hour then
        return false
      end
      for n, kind in ipairs(kinds_found) do
        local spans, latest = spans_of(row('i' .. kind)), 0
        for _, its_span in ipairs(spans) do
          local at_hour = is_hour(its_span) and at_of(its_span) or at_of(its_span) * 24
          latest = math.max(latest, at_hour)
        end
        if math.floor(latest / 24) + HOURS_KEPT + 1 < math.floor(hour / 24) then
          for _, its_span in ipairs(spans) do
            redis.call('HDEL', history, its_span .. kind)
          end
          redis.call('HDEL', history, 'i' .. kind)
          table.remove(kinds_found, n)
          return true
        end
      end
      redis.call('HSET', history, 'w', this_hour)
      return false
    end

    local index = redis.call('HGET', history, 'i' .. kind)
    if not index then
      local kinds_found = kinds_with_rows()
      if kind ~= OTHER and #kinds_found >= MOST_KINDS and not make_room(kinds_found, hour) then
        return false
      end
      kinds_found[#kinds_found + 1] = kind
      put_kinds(kinds_found)
    end
    local kept = { [span('m', hour)] = true }
    for _, its_span in ipairs(spans_of(index or '')) do
      local at_hour = at_of(its_span)
      if is_hour(its_span) and at_hour + MINUTES_KEPT < hour then
        local value, sums, from = row(its_span .. kind), {}, 1
        while from < #value do
          local length = string.byte(value, from + 1)
          read_figures(string.sub(value, from + 2, from + 1 + length), sums)
          from = from + 2 + length
        end
        local day = span('h', math.floor(at_hour / 24))
        redis.call('HSET', history, day .. kind, with(row(day .. kind), at_hour % 24, sums))
        redis.call('HDEL', history, its_span .. kind)
        kept[day] = true
      else
        kept[its_span] = true
      end
    end
    local spans = {}
    for its_span in pairs(kept) do
      if not is_hour(its_span) and at_of(its_span) + HOURS_KEPT + 1 < math.floor(hour / 24) then
        redis.call('HDEL', history, its_span .. kind)
      else
        spans[#spans + 1] = its_span
      end
    end
    table.sort(spans)
    redis.call('HSET', history, 'i' .. kind, table.concat(spans))
    return true
  end

  local minute = math.floor(math.max(now, 0) / 60000)
  local hour, slot = math.floor(minute / 60), minute % 60
  local this_hour = 'm' .. struct.pack('>I4', hour)
  for kind, figures in pairs(noted) do
    local value = redis.call('HGET', history, this_hour .. kind)
    if not value and not begin_hour(kind, hour) then
      kind = OTHER
      value = redis.call('HGET', history, this_hour .. kind)
      if not value then
        begin_hour(kind, hour)
      end
    end
    redis.call('HSET', history, this_hour .. kind, with(value or '', slot, figures))
  end
end
