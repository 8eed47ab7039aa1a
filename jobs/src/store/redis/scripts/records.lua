-- The record of a job. `records.rs` has the format of a record.
--
-- Gives: AS_COMPLETED, AS_DEAD, AS_CANCELLED, AS_EXPIRED, END, END_BYTES, WANTED_KEPT_MS, read, holds_key, is_wanted,
--   write, group_of_job.

-- How a job has ended: `Ending` in `store/ended.rs`.
local AS_COMPLETED, AS_DEAD, AS_CANCELLED, AS_EXPIRED = 1, 2, 3, 4
-- In the record of a job that has ended: how; its due time; when it ended; how long its run took; the length of its
-- result. The result follows.
local END, END_BYTES = '>BI8I8I8I4', 29
-- How long the end of a job is kept for which a caller waits: `WANTED_KEPT` in `store/ended.rs`.
local WANTED_KEPT_MS = 60000

-- Reads the record of a job: failures, interruptions and attempts; kind, key and errors; how it has ended, if it has;
-- the payload, and before it the extra with its length, if there is one. Returns nil if it cannot be read, because
-- another version or a user wrote it.
local function read(record)
  if #record < HEAD_BYTES then
    return nil
  end
  local flags, failures, interruptions, attempts, kind_bytes, key_bytes, errors_bytes =
    struct.unpack(HEAD, record)
  local needed = HEAD_BYTES + kind_bytes + key_bytes + errors_bytes + (has(flags, ENDED) and END_BYTES or 0)
  if flags > CALLERS_ID + ENDED + EXTRA + PARTITION + GROUP + GIVES_RESULT or #record < needed then
    return nil
  end
  if has(flags, ENDED) then
    local ending = string.byte(record, needed - END_BYTES + 1)
    needed = needed + struct.unpack('>I4', string.sub(record, needed - 3, needed))
    if #record < needed or ending < AS_COMPLETED or ending > AS_EXPIRED then
      return nil
    end
  end
  if has(flags, EXTRA) and not has_extra(record, needed) then
    return nil
  end
  local from = HEAD_BYTES
  local job = { flags = flags, failures = failures, interruptions = interruptions, attempts = attempts }
  job.kind = string.sub(record, from + 1, from + kind_bytes)
  from = from + kind_bytes
  job.key = string.sub(record, from + 1, from + key_bytes)
  from = from + key_bytes
  job.errors = string.sub(record, from + 1, from + errors_bytes)
  from = from + errors_bytes
  if has(flags, ENDED) then
    local result_bytes
    job.ending, job.due, job.ended_at, job.took, result_bytes =
      struct.unpack(END, string.sub(record, from + 1, from + END_BYTES))
    from = from + END_BYTES
    job.result = string.sub(record, from + 1, from + result_bytes)
    from = from + result_bytes
  end
  job.payload = string.sub(record, from + 1)
  return due[job.kind] and job
end

-- Whether a job holds its key until its end: the second byte of its extra has the mark.
local function holds_key(job)
  return has(job.flags, EXTRA) and has(string.byte(job.payload, 4) or 0, 1)
end

-- Whether a caller waits for the end of a job.
local function is_wanted(job)
  return has(job.flags, EXTRA) and has(string.byte(job.payload, 4) or 0, 2)
end

local function write(job)
  local head = struct.pack(HEAD, job.flags, job.failures, job.interruptions, job.attempts, #job.kind,
    #job.key, #job.errors)
  local end_bytes = ''
  if has(job.flags, ENDED) then
    end_bytes = struct.pack(END, job.ending, job.due, job.ended_at, job.took, #job.result) .. job.result
  end
  return head .. job.kind .. job.key .. job.errors .. end_bytes .. job.payload
end

-- The group of a job, from its record: section 4 of its extra. Nil if it is no member.
local function group_of_job(job)
  local group = job and has(job.flags, GROUP) and values.section(job.payload, 1, 4)
  return group and #group == 16 and group or nil
end
