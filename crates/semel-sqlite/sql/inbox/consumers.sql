-- Lists the consumers that anything is known of, with counts.
-- ?1 how many at most, ?2 up to what is counted
WITH RECURSIVE handled (consumer) AS (
    SELECT min(consumer) FROM semel_inbox
    UNION ALL
    SELECT (SELECT min(i.consumer) FROM semel_inbox AS i WHERE i.consumer > h.consumer)
    FROM handled AS h
    WHERE h.consumer IS NOT NULL
), known (consumer) AS (
    SELECT consumer FROM handled WHERE consumer IS NOT NULL
    UNION
    SELECT consumer FROM semel_inbox_position
    UNION
    SELECT consumer FROM semel_inbox_attempt
    UNION
    SELECT consumer FROM semel_inbox_parked
)
SELECT
    k.consumer,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM semel_inbox AS i WHERE i.consumer = k.consumer LIMIT ?2
        )
    ),
    (
        SELECT count(*) FROM semel_inbox_parked AS p
        WHERE p.consumer = k.consumer AND p.state = 'failed'
    ),
    (
        SELECT count(*) FROM semel_inbox_parked AS p
        WHERE p.consumer = k.consumer AND p.state = 'retry'
    ),
    (
        SELECT min(p.parked_at_us) FROM semel_inbox_parked AS p
        WHERE p.consumer = k.consumer AND p.state = 'failed'
    ),
    (SELECT count(*) FROM semel_inbox_attempt AS a WHERE a.consumer = k.consumer)
FROM known AS k
ORDER BY k.consumer
LIMIT ?1;
