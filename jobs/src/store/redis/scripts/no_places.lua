-- The ends of claims that are not counted: they need no function of `places.lua`, and a server makes every function
-- anew in each call. If a claim is counted, `complete.lua` makes the caller call the other script.
local free_places
