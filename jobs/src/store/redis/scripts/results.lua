-- The results of operations. Each is one letter, because an answer has up to 256 of them. `ResultCode` in `protocol.rs`
-- has the same letters.
--
-- Gives: INSERTED, KNOWN, KEY_TAKEN, CANCELLED, RUNNING, GONE, DONE, CLAIM_LOST, CHANGED, UNCHANGED, GROUP_REFUSED.

local INSERTED, KNOWN, KEY_TAKEN = 'n', 'k', 't'
local CANCELLED, RUNNING, GONE = 'c', 'r', 'g'
local DONE, CLAIM_LOST = 'd', 'x'
local CHANGED, UNCHANGED = '1', '0'
-- A group does not take a change: a letter of `group_error` in `protocol.rs` follows.
local GROUP_REFUSED = 'f'
