-- Deletes old events, the first ones. A time that lies ahead tells nothing of the age: such an event
-- goes with the older ones behind it.
-- ?1 up to this position, ?2 appended before, ?3 now, ?4 how many are looked at
DELETE FROM semel_outbox
WHERE
    pos <= (
        SELECT max(pos)
        FROM (
            SELECT pos, at_us FROM semel_outbox
            WHERE pos <= ?1
            ORDER BY pos
            LIMIT ?4
        )
        WHERE at_us < ?2
    )
    AND (at_us < ?2 OR at_us > ?3);
