-- Persists the time and the floor of the fences; neither ever falls.
-- ?1 time, ?2 floor
UPDATE semel_meta SET time_us = max(time_us, ?1), floor = max(floor, ?2) WHERE one = 1;
