-- The partitions of jobs, and their lanes. `places.lua` has the keys.

-- The partition in an extra. `from`: where the length of the extra is. `values/job.rs` has the format.
local function partition_in(text, from)
  local byte = string.byte
  local high, low = byte(text, from, from + 1)
  local last, section_at = low and from + 1 + high * 256 + low or 0, from + 4
  while section_at + 2 <= last do
    local section, its_high, its_low = byte(text, section_at, section_at + 2)
    local to = section_at + 2 + its_high * 256 + its_low
    if section == 3 then
      return string.sub(text, section_at + 3, to)
    end
    section_at = to + 1
  end
  return ''
end

-- The lane of a partition: the kind and the partition, each with its length before it.
local function lane_of(kind, partition)
  return string.char(#kind) .. kind .. string.char(math.min(#partition, 255)) .. partition
end

-- The member of `wait` for a job.
local function place_in(lane, time, id)
  return lane .. struct.pack('>I8', time) .. id
end

-- The lane of a job, from its record. Nil if it has no partition.
local function lane_of_job(job)
  return has(job.flags, PARTITION) and lane_of(job.kind, partition_in(job.payload, 1)) or nil
end
