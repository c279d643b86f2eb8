-- Raises the floor of the fences, which never falls.
-- $1 floor
UPDATE semel.meta SET floor = $1 WHERE floor < $1;
