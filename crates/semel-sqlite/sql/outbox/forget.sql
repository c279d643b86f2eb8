-- Deletes a destination.
-- ?1 destination
DELETE FROM semel_destination WHERE destination = ?1;
