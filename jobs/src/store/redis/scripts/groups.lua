-- Groups: how members join and leave them, and how a group ends.
--
-- `groups` has two fields for each group. Its id leads to the row: the marks below; when it was made and when it has
-- ended, or zero; the numbers of its members, and of those that completed, are dead, were cancelled, have expired; the
-- number of dead jobs that name it, from which each retry and each delete after its end takes one; the id of its
-- callback, if it has one. Its id and 'c' lead to the callback: its due time, the length of its kind, the kind, the
-- record.
-- `members` has one member for each open member of a group: 'o', the group, the job. So a member that leaves twice is
-- counted once, and whether one is left is read, and not counted. It also has each group by the time of its insert ('g',
-- the time, the group), and by that of its end ('e', the time, the group) once no dead job names it and it has no results.
-- So a group is forgotten only when no job could be counted in a later group with its id. If a group keeps results, there
-- is one member for each of its members that has ended: 'r', the group, the job, and the row of `store/group.rs`.
--
-- The memory of a callback is taken when the group is inserted: at the end it moves to `jobs`. So a full server takes the
-- end of every member.
--
-- Gives: grouped.
-- Needs: records, lanes, results, lane_filing, history.

local grouped = {}

do
  local SEALED, CANCELLED_MARK, WAITS, HAS_CALLBACK = 1, 2, 4, 8
  -- The group keeps results no more, and some of them are still to be removed.
  local RESULTS_LEFT = 32
  local ENDINGS = { completed = AS_COMPLETED, dead = AS_DEAD, cancelled = AS_CANCELLED, expired = AS_EXPIRED }
  -- Behind all members of `members` that begin with a letter and a group and have an id behind these.
  local LAST = string.rep('\255', 17)
  local ROW, ROW_BYTES = '>BI8I8I4I4I4I4I4I4', 41
  -- The groups that the operation has read, by their ids. False: the server has no group with this id.
  local touched = {}

  local function touch(id)
    local group = touched[id]
    if group == nil then
      local row = redis.call('HGET', groups, id)
      group = false
      if row and (#row == ROW_BYTES or #row == ROW_BYTES + 16) then
        group = { callback = string.sub(row, ROW_BYTES + 1) }
        group.marks, group.made, group.ended, group.total, group.completed, group.dead, group.cancelled,
          group.expired, group.dead_left = struct.unpack(ROW, row)
      end
      if row and (not group or has(group.marks, HAS_CALLBACK) ~= (#row > ROW_BYTES)) then
        group = false
        values.set_aside('HDEL', groups, id, row)
      end
      touched[id] = group
    end
    return group
  end

  -- The record of a job that joins a group: it says whether the group keeps results, so a node sends no others.
  function grouped.record(record, of)
    local group = of and touch(of)
    local flags = string.byte(record, 1)
    if group and has(group.marks, KEEPS_RESULTS) and not has(flags, GIVES_RESULT) then
      return string.char(flags + GIVES_RESULT) .. string.sub(record, 2)
    end
    return record
  end

  -- Adds an open member. It has no result, also if it has ended before.
  local function open_member(group, of, id)
    redis.call('ZADD', members, '0', 'o' .. of .. id)
    if has(group.marks, KEEPS_RESULTS) then
      local place = 'r' .. of .. id
      call_all('ZREM', members, redis.call('ZRANGEBYLEX', members, '[' .. place, '(' .. place .. '\255'))
    end
  end

  -- Counts a new open member.
  function grouped.join(id, of)
    local group = of and touch(of)
    if group then
      open_member(group, of, id)
      group.total = group.total + 1
    end
  end

  -- Counts a member that has ended. `job`: its record, or nil. `how`: 'completed', 'dead', 'cancelled' or 'expired'.
  -- `result`: that of its run, or nil.
  function grouped.leave(id, job, how, result)
    local of = group_of_job(job)
    local group = of and touch(of)
    if of and redis.call('ZREM', members, 'o' .. of .. id) == 1 and group then
      group[how] = group[how] + 1
      group.dead_left = group.dead_left + (how == 'dead' and 1 or 0)
      if has(group.marks, KEEPS_RESULTS) then
        local row = string.char(ENDINGS[how], #job.kind) .. job.kind .. (how == 'dead' and job.errors or result or '')
        redis.call('ZADD', members, '0', 'r' .. of .. id .. row)
      end
    end
  end

  -- Counts a dead member as cancelled, because it was deleted.
  function grouped.dead_is_gone(job)
    local of = job.ending == AS_DEAD and group_of_job(job)
    local group = of and touch(of)
    if group then
      group.dead_left = math.max(group.dead_left - 1, 0)
    end
    if group and group.ended == 0 then
      group.dead, group.cancelled = group.dead - 1, group.cancelled + 1
    end
  end

  -- Opens a dead member again. If its group has ended, the job is a member no longer.
  function grouped.reopen(id, job)
    local of = group_of_job(job)
    if not of then
      return
    end
    local group = touch(of)
    if group then
      group.dead_left = math.max(group.dead_left - 1, 0)
    end
    if group and group.ended == 0 then
      group.dead = group.dead - 1
      open_member(group, of, id)
    else
      job.flags = job.flags % GROUP
    end
  end

  -- Why a group takes no member: see `group_error` in `protocol.rs`. Nil if it takes them.
  function grouped.refusal(id)
    local group = touch(id)
    if not group then
      return GROUP_REFUSED .. 'u'
    elseif has(group.marks, CANCELLED_MARK) then
      return GROUP_REFUSED .. 'a'
    elseif group.ended > 0 then
      return GROUP_REFUSED .. 'e'
    end
    return has(group.marks, SEALED) and GROUP_REFUSED .. 's' or nil
  end

  -- Makes a group that is not sealed. `callback_id`: '' if it has no callback.
  function grouped.make(id, waits, keeps, callback_id, callback)
    touched[id] = {
      callback = callback_id, made = now, ended = 0,
      total = 0, completed = 0, dead = 0, cancelled = 0, expired = 0, dead_left = 0,
      marks = (waits and WAITS or 0) + (keeps and KEEPS_RESULTS or 0) + (callback_id ~= '' and HAS_CALLBACK or 0),
    }
    redis.call('ZADD', members, '0', 'g' .. struct.pack('>I8', now) .. id)
    if callback_id ~= '' then
      redis.call('HSET', groups, id .. 'c', callback)
    end
  end

  -- Seals a group, and cancels it if `cancels`.
  function grouped.seal(id, cancels)
    local group = touch(id)
    if not group then
      return GROUP_REFUSED .. 'u'
    elseif group.ended > 0 then
      return GROUP_REFUSED .. 'e'
    end
    local before = group.marks
    if not has(group.marks, SEALED) then
      group.marks = group.marks + SEALED
    end
    if cancels and not has(group.marks, CANCELLED_MARK) then
      group.marks = group.marks + CANCELLED_MARK
    end
    return group.marks ~= before and CHANGED or UNCHANGED
  end

  -- Inserts the callback of a group that has ended. It is counted in its own group from the beginning.
  local function insert_callback(id, of)
    local callback = redis.call('HGET', groups, of .. 'c')
    -- From here on another job may have the id.
    redis.call('ZREM', ended, id)
    if not callback or #callback < 9 then
      return
    end
    redis.call('HDEL', groups, of .. 'c')
    local time, record = values.time(callback, 1) or now, string.sub(callback, 10 + string.byte(callback, 9))
    local job = read(record)
    if not job then
      values.set_aside('HDEL', groups, of .. 'c', callback)
      return
    end
    local kind = job.kind
    if redis.call('HEXISTS', jobs, id) == 1 then
      -- A user has removed the id from `ended`.
      grouped.leave(id, job, 'cancelled')
      return
    end
    redis.call('HSET', jobs, id, record)
    enqueue(kind, id, math.max(time, now), 0, lane_of_job(job))
    count(kind, 1)
    note(kind, INSERTED_JOB, 1)
  end

  local function is_over(id, group)
    if group.ended > 0 or not has(group.marks, SEALED) then
      return false
    end
    if group.dead > 0 and has(group.marks, WAITS) and not has(group.marks, CANCELLED_MARK) then
      return false
    end
    while true do
      local open = redis.call('ZRANGEBYLEX', members, '[o' .. id, '(o' .. id .. LAST, 'LIMIT', '0', '1')[1]
      if not open or #open == 33 then
        return not open
      end
      values.set_aside('ZREM', members, open)
    end
  end

  -- Writes the groups that an operation has changed, and ends those that are over.
  function grouped.settle()
    local id, group = next(touched)
    while id do
      touched[id] = nil
      if group then
        if is_over(id, group) then
          group.ended = now
          if has(group.marks, HAS_CALLBACK) then
            insert_callback(group.callback, id)
          end
        end
        local have_ended = group.completed + group.dead + group.cancelled + group.expired
        if group.ended > 0 and group.dead_left == 0 and (group.marks < KEEPS_RESULTS or have_ended == 0) then
          redis.call('ZADD', members, '0', 'e' .. struct.pack('>I8', group.ended) .. id)
        end
        local row = struct.pack(ROW, group.marks, group.made, group.ended, group.total, group.completed, group.dead,
          group.cancelled, group.expired, group.dead_left)
        redis.call('HSET', groups, id, row .. group.callback)
      end
      id, group = next(touched)
    end
  end

  -- Whether the results of a group may go: `results_may_go` in `store/group.rs`.
  local function may_go(group)
    if has(group.marks, RESULTS_LEFT) or group.ended == 0 or group.callback == '' then
      return has(group.marks, RESULTS_LEFT) or group.ended > 0 and group.ended < now - keep_dead
    end
    local record = redis.call('HGET', jobs, group.callback)
    local job = record and read(record)
    return not record or job ~= nil and has(job.flags, ENDED) and job.ending ~= AS_DEAD
  end

  -- Removes results that may go: about 1,000, fewer of more than a kilobyte, after a look at 128 groups at most. `meta`
  -- has the group that was looked at last. Returns whether more may be left.
  local function purge_results()
    local before, left = redis.call('HGET', meta, 'results'), 1000
    local after = before
    for _ = 1, 128 do
      local row = redis.call('ZRANGEBYLEX', members, after and '(r' .. after .. LAST or '[r', '(s', 'LIMIT', '0', '1')[1]
      local id = row and string.sub(row, 2, 17)
      if not row then
        if before then
          redis.call('HDEL', meta, 'results')
        end
        return false
      elseif #row < 35 then
        values.set_aside('ZREM', members, row)
      elseif touch(id) and not may_go(touch(id)) then
        touched[id], after = nil, id
      else
        local rows
        repeat
          rows = redis.call('ZRANGEBYLEX', members, '[r' .. id, '(r' .. id .. LAST, 'LIMIT', '0', '64')
          call_all('ZREM', members, rows)
          left = left - #rows - #table.concat(rows) / 1024
        until #rows < 64 or left <= 0
        local is_left = redis.call('ZRANGEBYLEX', members, '[r' .. id, '(r' .. id .. LAST, 'LIMIT', '0', '1')[1]
        if touch(id) then
          touch(id).marks = touch(id).marks % KEEPS_RESULTS + (is_left and RESULTS_LEFT or 0)
        end
        if left <= 0 then
          break
        end
        after = id
      end
    end
    if after then
      redis.call('HSET', meta, 'results', after)
    end
    return true
  end

  -- Removes results that may go. Forgets groups whose retention is over and that no dead job names: at most 128. Returns
  -- whether more may be left.
  function grouped.purge()
    -- A job that was deleted just now may have been the last that names its group.
    grouped.settle()
    local are_results_left = purge_results()
    grouped.settle()
    local until_time = struct.pack('>I8', math.max(now - keep_dead, 0))
    local over = redis.call('ZRANGEBYLEX', members, '[e', '(e' .. until_time, 'LIMIT', '0', '128')
    for _, place in ipairs(over) do
      local id = string.sub(place, -16)
      local group = touch(id)
      touched[id] = nil
      redis.call('ZREM', members, place)
      if group then
        redis.call('ZREM', members, 'g' .. struct.pack('>I8', group.made) .. id)
      end
      redis.call('HDEL', groups, id, id .. 'c')
    end
    return are_results_left or #over == 128
  end
end
