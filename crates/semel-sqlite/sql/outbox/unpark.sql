-- Deletes a parked row.
-- ?1 destination, ?2 place
DELETE FROM semel_parked WHERE seq = ?2 AND destination = ?1;
