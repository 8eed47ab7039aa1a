-- Moves the progress of a run to its job.
--
-- Gives: run_progress.
-- Needs: ends.

local run_progress = {}

-- Takes the progress that the run of a claimed job has set, or '' if it has set none. A longer value is of another
-- program.
function run_progress.take(id)
  local value = is_any_progress and redis.call('HGET', progress, id)
  if not value then
    return ''
  end
  redis.call('HDEL', progress, id)
  return #value <= 4096 and value or ''
end

-- Gives a job this progress, or none if it is ''. The progress is section 129 of the extra, the last one.
function run_progress.give(job, value)
  local text, _, from, to = job.payload
  if has(job.flags, EXTRA) then
    _, from, to = values.section(text, 1, 129)
  elseif value ~= '' then
    job.flags, text = job.flags + EXTRA, '\0\2\1\0' .. text
  end
  if not from and value == '' then
    return
  end
  if from then
    text = string.sub(text, 1, from - 1) .. string.sub(text, to + 1)
  end
  local high, low = string.byte(text, 1, 2)
  local behind = 3 + high * 256 + low - (from and to + 1 - from or 0)
  local extra = string.sub(text, 3, behind - 1)
  if value ~= '' then
    extra = extra .. '\129' .. struct.pack('>I2', #value) .. value
  end
  job.payload = struct.pack('>I2', #extra) .. extra .. string.sub(text, behind)
  if extra == '\1\0' then
    job.flags, job.payload = job.flags - EXTRA, string.sub(job.payload, 5)
  end
end
