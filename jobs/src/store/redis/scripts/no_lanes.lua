-- A claim while `flow` is empty: no job has a partition, and nothing is limited. The values of `limits.lua` and
-- `take_lanes.lua` are nil.
local in_lanes, opens_at, fits, plain_scope, next_in_lanes, at_end
