-- Says which commands the user may not send, without sending any: so none of it is in `ACL LOG`. The
-- arguments are commands, each after the number of its words. Answers a letter for each: '1' if it may be
-- sent. Before Redis 7 the server cannot say: then the answer is empty. It needs no prelude, and no key.

if not redis.acl_check_cmd then
  return ''
end
local letters, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local known, may = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  letters[#letters + 1] = (may or not known) and '1' or '0'
  at = at + 1 + words
end
return table.concat(letters)
