-- The results of operations. Each is one letter, because an answer has up to 256 of them. `ResultCode` in `protocol.rs`
-- has the same letters.
local INSERTED, KNOWN, KEY_TAKEN = 'n', 'k', 't'
local CANCELLED, RUNNING, GONE = 'c', 'r', 'g'
local DONE, CLAIM_LOST = 'd', 'x'
local CHANGED, UNCHANGED = '1', '0'
