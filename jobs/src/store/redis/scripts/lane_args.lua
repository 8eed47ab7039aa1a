-- The arguments of a claim that has lanes and limits. Those of `claim.lua` follow.
--
-- ARGV from `at` on: how many jobs with a partition it may take whose handlers block a thread; how many kinds it names;
-- for each the flow, and the limit of the flow if none is stored, or ''.
local in_lanes, many_flows = args(2)
in_lanes = tonumber(in_lanes)
local flows_at = at
at = at + 2 * tonumber(many_flows)
-- Set by `limits.lua` and `take_lanes.lua`.
local may_run, opens_at, fits, plain_scope, next_in_lanes, at_end
