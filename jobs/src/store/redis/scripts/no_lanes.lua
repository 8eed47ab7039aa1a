-- A claim while `flow` is empty: no job has a partition, and nothing is limited. What `limits.lua` says is not there.
local in_lanes, may_run, plain_scope, next_in_lanes, at_end
