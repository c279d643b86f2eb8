-- Says whether an event was left out.
-- ?1 destination, ?2 position of the event
SELECT 1 FROM semel_left_out
WHERE destination = ?1 AND id = (SELECT id FROM semel_outbox WHERE pos = ?2);
