-- Forgets attempts of messages that came to an end, or did not come again for long.
-- ?1 counted last at or before, ?2 how many at most
DELETE FROM semel_inbox_attempt
WHERE (consumer, source, message_id) IN (
    SELECT consumer, source, message_id FROM semel_inbox_attempt AS a
    WHERE
        last_at_us <= ?1
        OR EXISTS (
            SELECT 1 FROM semel_inbox AS i
            WHERE
                i.consumer = a.consumer AND i.source = a.source
                AND i.message_id = a.message_id
        )
    LIMIT ?2
);
