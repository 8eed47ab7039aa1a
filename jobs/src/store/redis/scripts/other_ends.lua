-- Changes to claimed jobs: all but the most frequent one, which `complete.lua` has. Each operation carries the token of
-- its claim, and does nothing if that claim is no longer held.

-- Ends the claim with this token, behind which the buckets of its run may stand. Returns the claim as its fence
-- describes it. Nil if the job has no claim with this token.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  local is_held = fence and string.sub(fence, 1, TOKEN_BYTES) == string.sub(token, 1, TOKEN_BYTES)
  local claim = is_held and read_fence(fence)
  if not claim then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  drop_progress({ id })
  if claim.scope then
    free_place(id, claim.scope)
  end
  return claim
end

-- Removes a claimed job that was cancelled, and keeps it if a caller waits for its end.
local function forget_cancelled(id, claim, took)
  local record = has(claim.flags, EXTRA) and redis.call('HGET', jobs, id)
  local job = record and read(record)
  grouped.leave(id, job, 'cancelled')
  if job and is_wanted(job) then
    free_key(claim.key, id)
    count(claim.kind, -1)
    count_retrying(claim.kind, claim.has_failed and -1 or 0)
    keep(id, job, AS_CANCELLED, claim.due, took, '', now + WANTED_KEPT_MS)
  else
    redis.call('HDEL', jobs, id)
    forget(id, claim)
  end
end

do
  -- The time in a member of `over`.
  local function time_in(place)
    return (struct.unpack('>I8', string.sub(place, -24, -17)))
  end

  -- The member of `over` by time that belongs to one by kind and time.
  local function by_time_of(place, ending)
    return 'a' .. ending .. string.sub(place, -24)
  end

  -- The flags of a kept job, and how many bytes it counts. Nil if the record is not that of a completed job. A busy kind
  -- removes a kept job with each end, so this reads no other part of the record.
  local function read_kept(record)
    local kind_bytes, key_bytes, high, low = string.byte(record, 14, 17)
    local before = low and HEAD_BYTES + kind_bytes + key_bytes + high * 256 + low
    local flags = string.byte(record)
    if not before or #record < before + END_BYTES or not has(flags, ENDED)
      or string.byte(record, before + 1) ~= AS_COMPLETED then
      return nil
    end
    return flags, #record - HEAD_BYTES - kind_bytes - key_bytes - END_BYTES - (has(flags, EXTRA) and 2 or 0)
  end

  -- Removes the oldest kept jobs of a kind while it has more jobs than `last` or more bytes than `bytes`, and none on whose
  -- end a caller waits. `number`: how many have come. A lower bound makes no script long: see TRIMMED. Jobs that ended in
  -- one millisecond are equally old. The jobs on whose end a caller waits do not count.
  local function trim(kind, last, bytes, number)
    local counted = redis.call('HMGET', counters, 'kept_bytes:' .. kind, 'listed:' .. kind, 'waited_bytes:' .. kind)
    if counted[3] then
      local waited, waited_bytes = kept_lists.waited_for(kind, values.number(counted[3]) or 0)
      last, bytes = last + waited, bytes + waited_bytes
    end
    local kept_bytes, listed = values.number(counted[1]) or 0, values.number(counted[2]) or 0
    local first, final = range_of(AS_COMPLETED, kind)
    local others = redis.call('ZLEXCOUNT', over, first, final)
    local many, bytes_before, listed_before = others + listed, kept_bytes, listed
    local first_list, last_list = kept_lists.range(kind)
    local most, looks = TRIMMED * number, TRIM_LOOKS * number
    local remembered = {}

    local function is_over()
      return most > 0 and (many > last or kept_bytes > bytes)
    end

    -- The jobs with places of their own. `oldest`: these places.
    local function trim_places(oldest)
      first = '(' .. oldest[#oldest]
      looks = looks - #oldest
      local ids, gone, places_gone = {}, {}, {}
      for n, place in ipairs(oldest) do
        ids[n] = string.sub(place, -16)
      end
      for n, record in ipairs(get_all(jobs, ids)) do
        if not is_over() then
          break
        end
        local id, place = ids[n], oldest[n]
        local flags, its_bytes = read_kept(record or '')
        local job = flags and has(flags, EXTRA) and read(record)
        if not flags then
          many = many - 1
          if #place == 27 + #kind then
            places_gone[#places_gone + 1] = place
          else
            values.set_aside('ZREM', over, place)
          end
        elseif not (job and is_wanted(job) and time_in(place) + WANTED_KEPT_MS >= now) then
          many, most, kept_bytes = many - 1, most - 1, kept_bytes - its_bytes
          gone[#gone + 1] = id
          places_gone[#places_gone + 1], places_gone[#places_gone + 2] = place, by_time_of(place, AS_COMPLETED)
          if has(flags, CALLERS_ID) and time_in(place) + keep_dead >= now then
            remembered[#remembered + 1] = { id, time_in(place) }
          end
        end
      end
      call_all('HDEL', jobs, gone)
      call_all('ZREM', ended, gone)
      call_all('ZREM', over, places_gone)
    end

    -- A list, of which some jobs may stay. Only then are records read.
    local function trim_list(list)
      local _, list_bytes, ids_at, its_number = kept_lists.read(list)
      first_list = '(' .. list
      looks = looks - its_number
      if its_number == 0 then
        redis.call('ZREM', over, list)
        return
      end
      local ids = kept_lists.ids(list, ids_at)
      local gone, left, bytes_left = ids, {}, 0
      if its_number <= most and (many - its_number >= last or kept_bytes - list_bytes > bytes) then
        many, most, kept_bytes = many - its_number, most - its_number, kept_bytes - list_bytes
      else
        gone, bytes_left = {}, list_bytes
        local wanted = math.min(its_number, most, kept_bytes > bytes and most or many - last)
        local records = get_all(jobs, { unpack(ids, 1, wanted) })
        for n, id in ipairs(ids) do
          if n <= wanted and is_over() then
            local _, its_bytes = read_kept(records[n] or '')
            its_bytes = its_bytes or 0
            many, most, kept_bytes = many - 1, most - 1, kept_bytes - its_bytes
            gone[#gone + 1], bytes_left = id, bytes_left - its_bytes
          else
            left[#left + 1] = id
          end
        end
        if #left == 0 then
          -- Of records that were removed by hand.
          kept_bytes = kept_bytes - bytes_left
        end
      end
      listed = listed - #gone
      call_all('HDEL', jobs, gone)
      kept_lists.shorten(list, ids_at, left, bytes_left)
    end

    while looks > 0 and is_over() do
      local wanted = kept_bytes > bytes and most or math.min(most, many - last)
      local lists, oldest = {}, {}
      if listed > 0 then
        lists = redis.call('ZRANGEBYLEX', over, first_list, last_list, 'LIMIT', 0, math.ceil(wanted / kept_lists.MOST))
        if #lists == 0 then
          -- They were removed by hand.
          many, listed = many - listed, 0
        end
      end
      if others > 0 then
        oldest = redis.call('ZRANGEBYLEX', over, first, final, 'LIMIT', 0, math.min(wanted, looks, AT_ONCE))
      end
      if #oldest > 0 and #lists > 0 then
        -- The jobs that are older than the first list. If there is none, the first list is the oldest.
        local list_time, older = kept_lists.read(lists[1]), 0
        while older < #oldest and (#oldest[older + 1] < 24 or time_in(oldest[older + 1]) <= list_time) do
          older = older + 1
        end
        oldest = { unpack(oldest, 1, older) }
        lists = { lists[1] }
      end
      if #oldest > 0 then
        trim_places(oldest)
      elseif #lists > 0 then
        for _, list in ipairs(lists) do
          if looks > 0 and is_over() then
            trim_list(list)
          end
        end
      else
        break
      end
    end
    if kept_bytes ~= bytes_before or listed ~= listed_before then
      kept_lists.count(kind, listed - listed_before, kept_bytes - bytes_before)
    end
    for _, its in ipairs(remembered) do
      remember_id(unpack(its))
    end
  end

  -- The record of a job that has completed. `job`: its record before that, if it was read. Otherwise the job has neither
  -- extra nor key nor errors, so its record is cut and not read. Returns how many bytes the job counts, too.
  local function kept_record(record, job, due_time, took, result)
    if job then
      job.flags, job.ending, job.due, job.ended_at = job.flags + ENDED, AS_COMPLETED, due_time, now
      job.took, job.result = took, result
      return write(job), bytes_of(job)
    end
    local before = HEAD_BYTES + string.byte(record, 14)
    return string.char(string.byte(record) + ENDED) .. string.sub(record, 2, before)
      .. struct.pack(END, AS_COMPLETED, due_time, now, took, #result) .. result .. string.sub(record, before + 1),
      #record - before + #result
  end

  -- Whether a claimed job has neither extra nor key nor errors, and is what its fence says.
  local function is_plain(record, claim)
    local kind_bytes, key_bytes, high, low = string.byte(record, 14, 17)
    return low and claim.flags < ENDED and string.byte(record) == claim.flags and key_bytes + high + low == 0
      and string.sub(record, HEAD_BYTES + 1, HEAD_BYTES + kind_bytes) == claim.kind and due[claim.kind]
  end

  -- Ends runs that completed, and keeps their jobs. `bounds`: for how long, how many and how many bytes the kind of a job
  -- keeps; or '' if it keeps none and only callers wait for the ends. One result for each.
  operations.complete_and_keep = function()
    local bounds, many = args(2)
    local age, last, bytes = string.match(bounds, '(%d+) (%d+) (%d+)')
    local ids, first = {}, at
    for n = 1, tonumber(many) do
      ids[n] = ARGV[first + 4 * n - 4]
    end
    at = at + 4 * #ids
    local found, records = get_all(fences, ids), get_all(jobs, ids)
    local results, its, records_kept, dates, places_kept = {}, {}, {}, {}, {}
    local kept, kept_bytes, waited_bytes = {}, {}, {}
    -- For each kind: the ids of its lists, and how many bytes each of these jobs counts.
    local to_list, to_list_bytes = {}, {}
    -- Digits, since a server makes them of each number anew.
    local function date(till)
      return string.format('%.0f', math.min(till, LATEST))
    end
    local by_age, wanted_till = age and date(now + tonumber(age)), now + WANTED_KEPT_MS
    -- The fence of the job before, and what it says.
    local fence_before, claim
    -- The beginnings of the members of `over`, by kind.
    local beginnings = {}
    for n, id in ipairs(ids) do
      local token, took, result = unpack(ARGV, first + 4 * n - 3, first + 4 * n - 1)
      local fence, record = found[n], records[n]
      results[n] = CLAIM_LOST
      local is_held = fence and string.sub(fence, 1, TOKEN_BYTES) == string.sub(token, 1, TOKEN_BYTES)
      if is_held and fence ~= fence_before then
        fence_before, claim = fence, read_fence(fence)
      end
      if is_held and claim then
        results[n] = DONE
        its[#its + 1] = id
        take_cancel_request(id)
        note_run(claim.kind, COMPLETED, token)
        if claim.scope then
          free_place(id, claim.scope)
        end
        local cut = record and is_plain(record, claim)
        local job = record and not cut and read(record)
        if cut or job then
          local kind, till = claim.kind, by_age
          count(kind, -1)
          count_retrying(kind, claim.has_failed and -1 or 0)
          if job then
            free_key(claim.key, id)
            grouped.leave(id, job, 'completed')
            if claim.key == '' then
              -- Another job took it, or it had none.
              job.key = ''
            end
            if is_wanted(job) then
              till = date(age and math.max(wanted_till, now + tonumber(age)) or wanted_till)
            end
          end
          local kept_as, its_bytes = kept_record(record, job, claim.due, tonumber(took), result)
          records_kept[#records_kept + 1], records_kept[#records_kept + 2] = id, kept_as
          if cut and age and not has(claim.flags, CALLERS_ID) then
            local listed, bytes_listed = to_list[kind] or {}, to_list_bytes[kind] or {}
            to_list[kind], to_list_bytes[kind] = listed, bytes_listed
            listed[#listed + 1] = id
            bytes_listed[#listed] = its_bytes
          else
            dates[#dates + 1], dates[#dates + 2] = till or date(now), id
            beginnings[kind] = beginnings[kind] or { places(AS_COMPLETED, kind, now, '') }
            local to = #places_kept
            places_kept[to + 1], places_kept[to + 2] = '0', beginnings[kind][1] .. id
            places_kept[to + 3], places_kept[to + 4] = '0', beginnings[kind][2] .. id
          end
          if age and job and is_wanted(job) then
            local to = #places_kept
            local rest = struct.pack('>I8', now) .. id .. struct.pack('>I4', its_bytes)
            places_kept[to + 1], places_kept[to + 2] = '0', kept_lists.waited_place(kind, rest)
            waited_bytes[kind] = (waited_bytes[kind] or 0) + its_bytes
          end
          kept[kind] = (kept[kind] or 0) + 1
          kept_bytes[kind] = (kept_bytes[kind] or 0) + its_bytes
        else
          if record then
            values.set_aside('HDEL', jobs, id, record)
          end
          forget(id, claim)
        end
      end
    end
    call_all('ZREM', run, its)
    call_all('HDEL', fences, its)
    drop_progress(its)
    for kind, listed in pairs(to_list) do
      local head = kept_lists.head(kind) .. struct.pack('>I8', now)
      for from = 1, #listed, kept_lists.MOST do
        local to, list_bytes = math.min(from + kept_lists.MOST - 1, #listed), 0
        for n = from, to do
          list_bytes = list_bytes + to_list_bytes[kind][n]
        end
        local list = head .. struct.pack('>I4', list_bytes) .. table.concat(listed, '', from, to)
        dates[#dates + 1], dates[#dates + 2] = by_age, list
        places_kept[#places_kept + 1], places_kept[#places_kept + 2] = '0', list
      end
    end
    call_all('HSET', jobs, records_kept)
    call_all('ZADD', ended, dates)
    call_all('ZADD', over, places_kept)
    for kind, more in pairs(waited_bytes) do
      values.add(counters, 'waited_bytes:' .. kind, more)
    end
    for kind, number in pairs(kept) do
      kept_lists.count(kind, #(to_list[kind] or {}), kept_bytes[kind])
      if age then
        trim(kind, tonumber(last), tonumber(bytes), number)
      end
    end
    return table.concat(results)
  end
end

-- Ends a run that failed, was snoozed or was cancelled. `fate`: see `Fate` in `protocol.rs`. `errors`: those of earlier
-- attempts, and this one. `took`: how long the run took.
operations.finish = function()
  local id, token, fate, time, errors, took = args(6)
  took = tonumber(took)
  local claim = end_claim(id, token)
  if not claim then
    return CLAIM_LOST
  end
  local record = redis.call('HGET', jobs, id)
  if take_cancel_request(id) or fate == 'cancelled' or not record then
    note_run(claim.kind, CANCELLED_JOB, token)
    forget_cancelled(id, claim, took)
    return DONE
  end
  local job = read(record)
  note_run(claim.kind, fate == 'snoozed' and SNOOZED or fate == 'dead' and DEAD or RETRIED, token)
  if not job then
    values.set_aside('HDEL', jobs, id, record)
    forget(id, claim)
    return DONE
  end
  local failed_before = job.failures > 0
  if fate ~= 'snoozed' then
    job.failures = job.failures + 1
    job.attempts = job.attempts + 1
    job.errors = errors
  end
  if fate == 'dead' then
    bury(id, job, claim.due, took, failed_before)
    grouped.leave(id, job, 'dead')
  else
    job.interruptions = 0
    count_retrying(job.kind, fate ~= 'snoozed' and not failed_before and 1 or 0)
    redis.call('HSET', jobs, id, write(job))
    enqueue(job.kind, id, tonumber(time), 0, lane_of_job(job))
  end
  return DONE
end

-- Sets the progress of a run.
operations.put_progress = function()
  local id, token, value = args(3)
  local fence = redis.call('HGET', fences, id)
  if not fence or string.sub(fence, 1, TOKEN_BYTES) ~= token then
    return DONE
  end
  redis.call('HSET', progress, id, value)
  is_any_progress = true
  return DONE
end

do
  -- The lane of a claimed job with a partition.
  local function lane_of_claim(id, claim)
    local lane = claim.scope and string.sub(claim.scope, string.byte(claim.scope, 1) + 2) or ''
    if #lane > #claim.kind + 2 then return lane end
    local job = read(redis.call('HGET', jobs, id) or '')
    return job and lane_of_job(job)
  end

  -- Gives a claim back, as if it had never been made. `interrupted`: '1' if a run was under way.
  operations.release = function()
    local id, token, interrupted = args(3)
    local claim = end_claim(id, token)
    if not claim then
      return DONE
    end
    if take_cancel_request(id) then
      note(claim.kind, CANCELLED_JOB, 1)
      forget_cancelled(id, claim, 0)
    else
      if interrupted == '1' then
        note(claim.kind, INTERRUPTED, 1)
      end
      local lane = has(claim.flags, PARTITION) and lane_of_claim(id, claim)
      enqueue(claim.kind, id, claim.due, claim.interruptions, lane)
    end
    return DONE
  end
end
