-- Finds out whether anybody is at the other end.
SELECT 1;
