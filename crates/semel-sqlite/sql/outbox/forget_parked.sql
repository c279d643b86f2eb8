-- Deletes all that is parked for a destination: what waits behind the heads, or the heads.
-- ?1 destination, ?2 0 or 1: whether the heads
DELETE FROM semel_parked WHERE destination = ?1 AND head = ?2;
