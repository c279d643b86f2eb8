-- An event is left out no more.
-- ?1 destination, ?2 position of the event
DELETE FROM semel_left_out
WHERE destination = ?1 AND id = (SELECT id FROM semel_outbox WHERE pos = ?2);
