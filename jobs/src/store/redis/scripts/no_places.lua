-- The ends of claims that are not counted: they need no function of `places.lua`, and a server makes every function anew in
-- each call. `complete.lua` says what becomes of the others.
local free_place
