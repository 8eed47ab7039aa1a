-- Reads the fence of a claim.

local function due_of(fence)
  return (struct.unpack('>I8', fence, 17))
end

-- In digits.
local function number_of(fence)
  return string.format('%.0f', (struct.unpack('>I8', fence, 9)))
end

local function interruptions_of(fence)
  return (struct.unpack('>I4', fence, FENCE_BYTES + 6))
end

-- Whether the claimed job has failed before.
local function has_failed(fence)
  return struct.unpack('>I4', fence, FENCE_BYTES + 2) > 0
end

local function owner_of(fence)
  return string.sub(fence, 25, 32)
end

local function read_fence(fence)
  local kind_bytes, key_bytes = string.byte(fence, FENCE_BYTES + 14, FENCE_BYTES + 15)
  local from = FENCE_BYTES + HEAD_BYTES
  local claim = { flags = string.byte(fence, FENCE_BYTES + 1), key = '' }
  claim.kind = string.sub(fence, from + 1, from + kind_bytes)
  if string.byte(fence, FENCE_BYTES) == 107 then
    claim.key = string.sub(fence, from + kind_bytes + 1, from + kind_bytes + key_bytes)
  end
  return claim
end
