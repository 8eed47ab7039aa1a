-- Changes to claimed jobs: all but the most frequent one, which `complete.lua` has. Each operation carries the token of
-- its claim, and does nothing if that claim is no longer held.
--
-- Needs: records, kept_lists, fences, lanes, results, lane_filing, history, groups, batch, ends, progress,
--   ended.

-- Ends the claim with this token. The buckets of its run may follow the token. Returns the claim as its fence describes
-- it, with the `progress` of its run. Nil if the job has no claim with this token.
local function end_claim(id, token)
  local fence = redis.call('HGET', fences, id)
  local is_held = fence and string.sub(fence, 1, TOKEN_BYTES) == string.sub(token, 1, TOKEN_BYTES)
  local claim = is_held and read_fence(fence)
  if not claim then
    return nil
  end
  redis.call('ZREM', run, id)
  redis.call('HDEL', fences, id)
  claim.progress = run_progress.take(id)
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
    keep(id, job, AS_CANCELLED, claim.due, took, '', now + WANTED_KEPT_MS)
  else
    redis.call('HDEL', jobs, id)
  end
  forget(id, claim)
end

do
  -- How many kept jobs of a kind one that completes removes, at most: `store/ended.rs`. So a lower bound makes no script
  -- long.
  local TRIMMED = 2

  -- Lets the bounds of a kind count the jobs on whose end no caller waits any more: moves up to `most` of their lists.
  local function count_past_waits(kind, most)
    local first = kept_lists.range(kept_lists.WAITED_FOR, kind)
    local past = '(' .. string.sub(first, 2) .. struct.pack('>I8', math.max(now - WANTED_KEPT_MS, 0))
    local lists = redis.call('ZRANGEBYLEX', over, first, past, 'LIMIT', 0, most)
    local places, dates, jobs_more, bytes_more = {}, {}, 0, 0
    for n, list in ipairs(lists) do
      local counted = AS_COMPLETED .. string.sub(list, 2)
      local _, number, bytes = kept_lists.read(list)
      places[n + n - 1], places[n + n] = '0', counted
      dates[n + n - 1], dates[n + n] = redis.call('ZSCORE', ended, list) or '0', counted
      jobs_more, bytes_more = jobs_more + number, bytes_more + bytes
    end
    call_all('ZADD', over, places)
    call_all('ZADD', ended, dates)
    call_all('ZREM', over, lists)
    call_all('ZREM', ended, lists)
    return jobs_more, bytes_more
  end

  -- How many bytes a kept job counts. A busy kind removes a kept job with each end, so this reads no other part of the
  -- record. None if the record was changed by hand.
  local function bytes_in(record)
    local kind_bytes, key_bytes, high = string.byte(record, 14, 16)
    local extra_bytes = high and has(string.byte(record), EXTRA) and 2 or 0
    return high and math.max(#record - HEAD_BYTES - kind_bytes - key_bytes - END_BYTES - extra_bytes, 0) or 0
  end

  -- Counts the jobs of a kind that have come, and removes its oldest kept jobs while it has more than `last` or more bytes
  -- than `bytes`. Jobs that ended in one millisecond are equally old.
  local function trim(kind, last, bytes, come)
    local most = TRIMMED * come.number
    local jobs_more, bytes_more = count_past_waits(kind, most)
    jobs_more, bytes_more = jobs_more + come.counted, bytes_more + come.bytes
    local counted = redis.call('HMGET', counters, 'kept:' .. kind, 'kept_bytes:' .. kind)
    local many = (values.number(counted[1]) or 0) + jobs_more
    local kept_bytes = (values.number(counted[2]) or 0) + bytes_more
    local many_before, bytes_before = many, kept_bytes
    local first, final = kept_lists.range(AS_COMPLETED, kind)

    local function is_over()
      return most > 0 and (many > last or kept_bytes > bytes)
    end

    -- A list, of which some jobs may stay. Only then are records read.
    local function trim_list(list)
      local _, number, list_bytes = kept_lists.read(list)
      if number == 0 then
        values.set_aside('ZREM', over, list)
        return
      end
      local ids, gone, bytes_gone = kept_lists.ids(list), 0, 0
      local goes_whole = number <= most and (many - number >= last or kept_bytes - list_bytes > bytes)
      -- Beyond the bound of bytes, any number may go; otherwise no more than are too many.
      local looked_at = math.min(number, most, kept_bytes > bytes and most or many - last)
      local records = not goes_whole and get_all(jobs, { unpack(ids, 1, looked_at) })
      if goes_whole then
        gone, bytes_gone = number, list_bytes
        many, most, kept_bytes = many - number, most - number, kept_bytes - list_bytes
      end
      while records and gone < #records and is_over() do
        gone = gone + 1
        local its_bytes = bytes_in(records[gone] or '')
        many, most, kept_bytes, bytes_gone = many - 1, most - 1, kept_bytes - its_bytes, bytes_gone + its_bytes
      end
      call_all('HDEL', jobs, { unpack(ids, 1, gone) })
      local bytes_less = shorten_list(list, { unpack(ids, gone + 1) }, list_bytes - bytes_gone)
      -- They differ if records were changed by hand.
      kept_bytes = kept_bytes + bytes_gone - bytes_less
    end

    local at_once = math.ceil(most / kept_lists.MOST)
    while is_over() do
      local lists = redis.call('ZRANGEBYLEX', over, first, final, 'LIMIT', 0, at_once)
      if #lists == 0 then
        -- They were removed by hand.
        many, kept_bytes = 0, 0
        break
      end
      for _, list in ipairs(lists) do
        if is_over() then
          trim_list(list)
        end
      end
      at_once = math.min(2 * at_once, AT_ONCE)
    end
    kept_lists.count(kind, jobs_more + many - many_before, bytes_more + kept_bytes - bytes_before)
  end

  -- Keeps a job that was too old to start, if its kind keeps completed jobs or a caller waits. `bounds`: as below.
  function kept_lists.keep_expired(id, job, claim, bounds, took)
    local age, last, bytes = string.match(bounds, '(%d+) (%d+) (%d+)')
    local is_waited_for = is_wanted(job)
    if not age and not is_waited_for then
      redis.call('HDEL', jobs, id)
      return
    end
    if claim.key == '' then
      job.key = ''
    end
    local for_waiter = is_waited_for and WANTED_KEPT_MS or 0
    keep(id, job, AS_EXPIRED, claim.due, took, '', now + math.max(tonumber(age) or 0, for_waiter))
    if age then
      local counted = is_waited_for and 0 or 1
      local come = { number = 1, counted = counted, bytes = counted * kept_lists.bytes_of(job) }
      trim(job.kind, tonumber(last), tonumber(bytes), come)
    end
  end

  -- The record of a job that has completed. `job`: its record before that, if it was read. Otherwise the job has neither
  -- extra nor key nor errors, so its record is cut and not read. Returns how many bytes the job counts, too.
  local function kept_record(record, job, due_time, took, result)
    if job then
      run_progress.give(job, '')
      job.flags, job.ending, job.due, job.ended_at = job.flags + ENDED, AS_COMPLETED, due_time, now
      job.took, job.result = took, result
      return write(job), kept_lists.bytes_of(job)
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
    local results, its, records_kept, dates, places = {}, {}, {}, {}, {}
    -- By kind: the list that is not full yet; how many jobs come, and how many of them the bounds count.
    local open, kept = {}, {}
    -- Digits, since a server makes them of each number anew.
    local function date(till)
      return string.format('%.0f', math.min(till, LATEST))
    end
    local till = now + (tonumber(age) or 0)
    local by_age, by_wait = date(till), date(math.max(till, now + WANTED_KEPT_MS))

    local function put(how, kind, list, its_date)
      local member = kept_lists.new(how, kind, now, list.ids, list.bytes)
      places[#places + 1], places[#places + 2] = '0', member
      dates[#dates + 1], dates[#dates + 2] = its_date, member
    end

    -- Puts a job into a list. `job`: its record, if it was read.
    local function list_job(id, kind, job, its_bytes)
      local come = kept[kind] or { number = 0, counted = 0, bytes = 0 }
      kept[kind], come.number = come, come.number + 1
      if job and is_wanted(job) then
        put(kept_lists.WAITED_FOR, kind, { ids = { id }, bytes = its_bytes }, by_wait)
        return
      end
      local list = open[kind] or { ids = {}, bytes = 0 }
      open[kind], list.ids[#list.ids + 1], list.bytes = list, id, list.bytes + its_bytes
      come.counted, come.bytes = come.counted + 1, come.bytes + its_bytes
      if #list.ids == kept_lists.MOST then
        put(AS_COMPLETED, kind, list, by_age)
        open[kind] = nil
      end
    end

    -- The fence of the job before, and what it says.
    local fence_before, claim
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
          forget(id, claim)
          if job then
            grouped.leave(id, job, 'completed', result)
            if claim.key == '' then
              -- Another job took it, or it had none.
              job.key = ''
            end
          end
          local kept_as, its_bytes = kept_record(record, job, claim.due, tonumber(took), result)
          records_kept[#records_kept + 1], records_kept[#records_kept + 2] = id, kept_as
          list_job(id, claim.kind, job, its_bytes)
        else
          if record then
            values.set_aside('HDEL', jobs, id, record)
          end
          forget(id, claim)
        end
      end
    end
    for kind, list in pairs(open) do
      put(AS_COMPLETED, kind, list, by_age)
    end
    call_all('ZREM', run, its)
    call_all('HDEL', fences, its)
    drop_progress(its)
    call_all('HSET', jobs, records_kept)
    call_all('ZADD', ended, dates)
    call_all('ZADD', over, places)
    for kind, come in pairs(kept) do
      if age then
        trim(kind, tonumber(last), tonumber(bytes), come)
      elseif come.counted > 0 then
        kept_lists.count(kind, come.counted, come.bytes)
      end
    end
    return table.concat(results)
  end
end

-- Ends a run that failed, was snoozed or was cancelled, or the claim of a job that was too old to start. `fate`: the text
-- of an `Outcome`. `errors`: of the earlier attempts and of this one; for a job that was too old, the bounds of
-- its kind. `took`: how long the run took.
operations.finish = function()
  local id, token, fate, time, errors, took = args(6)
  took = tonumber(took)
  local claim = end_claim(id, token)
  if not claim then
    return CLAIM_LOST
  end
  local record = redis.call('HGET', jobs, id)
  local is_asked = take_cancel_request(id)
  if is_asked or fate == 'cancelled' or not record then
    note_run(claim.kind, CANCELLED_JOB, token)
    forget_cancelled(id, claim, took)
    return is_asked and CANCELLED or DONE
  end
  local job = read(record)
  local figures = { snoozed = SNOOZED, dead = DEAD, expired = EXPIRED }
  note_run(claim.kind, figures[fate] or RETRIED, token)
  if not job then
    values.set_aside('HDEL', jobs, id, record)
    forget(id, claim)
    return DONE
  end
  if fate == 'expired' then
    forget(id, claim)
    kept_lists.keep_expired(id, job, claim, errors, took)
    grouped.leave(id, job, 'expired')
    return DONE
  end
  local failed_before = job.failures > 0
  if fate ~= 'snoozed' then
    job.failures = job.failures + 1
    job.attempts = job.attempts + 1
    job.errors = errors
  end
  if claim.progress ~= '' then
    run_progress.give(job, claim.progress)
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
    return UNCHANGED
  end
  redis.call('HSET', progress, id, value)
  is_any_progress = true
  return CHANGED
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
      local job = claim.progress ~= '' and read(redis.call('HGET', jobs, id) or '')
      if job then
        run_progress.give(job, claim.progress)
        redis.call('HSET', jobs, id, write(job))
      end
      enqueue(claim.kind, id, claim.due, claim.interruptions, lane)
    end
    return DONE
  end
end
