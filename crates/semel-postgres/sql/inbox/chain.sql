-- Finds who had a message of an id: one look per consumer and source, since there are few of them.
-- $1 id, $2 how many at most
WITH RECURSIVE had AS (
    (
        SELECT consumer, source FROM semel.inbox ORDER BY consumer, source LIMIT 1
    )
    UNION ALL
    SELECT n.consumer, n.source
    FROM had AS h
    CROSS JOIN LATERAL (
        SELECT i.consumer, i.source
        FROM semel.inbox AS i
        WHERE (i.consumer, i.source) > (h.consumer, h.source)
        ORDER BY i.consumer, i.source
        LIMIT 1
    ) AS n
)
SELECT i.fingerprint, i.standing, i.answer, i.events::text, i.received_at_us, i.consumer, i.source,
    i.message_id
FROM had AS h
JOIN semel.inbox AS i ON i.consumer = h.consumer AND i.source = h.source AND i.message_id = $1
ORDER BY i.consumer, i.source
LIMIT $2;
