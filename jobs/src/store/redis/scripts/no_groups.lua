-- A script without the functions of `groups.lua`: none of its jobs is a member of a group.
local grouped
