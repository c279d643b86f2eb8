-- Deletes all that is parked behind a row in its lane, if the row is to be dropped.
-- ?1 destination, ?2 place
DELETE FROM semel_parked
WHERE
    (destination, aggregatetype, aggregateid) = (
        SELECT destination, aggregatetype, aggregateid FROM semel_parked
        WHERE seq = ?2 AND destination = ?1 AND state = 'drop'
    )
    AND seq > ?2;
