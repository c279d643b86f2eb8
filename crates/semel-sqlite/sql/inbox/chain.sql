-- Finds who had a message of an id: one look per consumer and source, since there are few of them.
-- ?1 id, ?2 how many at most
WITH RECURSIVE had (consumer, source) AS (
    SELECT * FROM (
        SELECT consumer, source FROM semel_inbox ORDER BY consumer, source LIMIT 1
    )
    UNION ALL
    SELECT n.consumer, n.source
    FROM had AS h
    JOIN semel_inbox AS n ON n.row_id = (
        SELECT row_id FROM semel_inbox AS i
        WHERE (i.consumer, i.source) > (h.consumer, h.source)
        ORDER BY i.consumer, i.source
        LIMIT 1
    )
)
SELECT
    i.fingerprint, i.standing, i.answer, i.events, i.received_at_us, i.consumer, i.source,
    i.message_id
FROM had AS h
JOIN semel_inbox AS i ON i.consumer = h.consumer AND i.source = h.source AND i.message_id = ?1
ORDER BY i.consumer, i.source
LIMIT ?2;
