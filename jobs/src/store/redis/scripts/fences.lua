-- Reads the fence of a claim.
--
-- Gives: read_fence.

-- The claim that a fence describes. Nil if there is no fence, or one that cannot be read. A claim without a fence is not
-- held by any process, and its job is due again when its lease ends.
-- `key`: '' if the job does not have its key. `scope`: that of a counted claim, see `lanes.lua`.
local function read_fence(fence)
  if not fence or #fence < FENCE_BYTES + HEAD_BYTES then
    return nil
  end
  local number, due_time, owner, mark, flags, failures, interruptions, _, kind_bytes, key_bytes =
    struct.unpack('>I8I8c8BBI4I4I4BB', fence, 9)
  local from = FENCE_BYTES + HEAD_BYTES
  local kind = string.sub(fence, from + 1, from + kind_bytes)
  from = from + kind_bytes
  if not due[kind] or #fence < from + key_bytes or due_time > LATEST or number > 2 ^ 53 then
    return nil
  end
  local claim = {
    number = number, due = due_time, owner = owner, flags = flags, kind = kind, key = '',
    has_failed = failures > 0, interruptions = interruptions,
  }
  if mark == 107 or mark == 75 then
    claim.key = string.sub(fence, from + 1, from + key_bytes)
  end
  if mark < 45 or mark == 75 then
    -- A counted claim.
    from = from + key_bytes + 1
    local to = from
    for _ = 1, 3 do
      to = to + 1 + (string.byte(fence, to) or 0)
    end
    claim.scope = string.sub(fence, from, to - 1)
    local lane = string.sub(claim.scope, (string.byte(claim.scope) or 0) + 2)
    if not values.has_parts(claim.scope, 3, 0) or string.sub(lane, 1, 1 + kind_bytes) ~= string.char(kind_bytes) .. kind then
      return nil
    end
  end
  return claim
end
