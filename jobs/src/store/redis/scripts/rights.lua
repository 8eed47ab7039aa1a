-- Checks which commands the user may send. It sends none of them, so `ACL LOG` shows none.
--
-- It has no prelude and no keys.
-- ARGV: for each command the number of its words, and the words.
-- Returns a digit for each command: '1' if the user may send it, or if the server does not know the command.
-- Before Redis 7 the server cannot tell: then the answer is empty.

if not redis.acl_check_cmd then
  return ''
end
local digits, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local known, may = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  digits[#digits + 1] = (may or not known) and '1' or '0'
  at = at + 1 + words
end
return table.concat(digits)
