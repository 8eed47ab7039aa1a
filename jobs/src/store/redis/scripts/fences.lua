-- Reads the fence of a claim.

local function due_of(fence)
  return (struct.unpack('>I8', fence, 17))
end

-- The number of a fence, in digits.
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
  local mark = string.byte(fence, FENCE_BYTES)
  from = from + kind_bytes
  if mark == 107 or mark == 75 then
    claim.key = string.sub(fence, from + 1, from + key_bytes)
  end
  if mark < 45 or mark == 75 then
    -- A counted claim: see `places.lua`.
    from = from + key_bytes + 1
    local to = from
    for _ = 1, 3 do
      to = to + 1 + (string.byte(fence, to) or 0)
    end
    claim.scope = string.sub(fence, from, to - 1)
  end
  return claim
end
