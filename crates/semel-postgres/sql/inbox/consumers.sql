-- Lists the consumers that anything is known of, with counts.
-- $1 how many at most, $2 up to what is counted
WITH RECURSIVE handled AS (
    (
        SELECT consumer FROM semel.inbox ORDER BY consumer LIMIT 1
    )
    UNION ALL
    SELECT n.consumer
    FROM handled AS h
    CROSS JOIN LATERAL (
        SELECT i.consumer FROM semel.inbox AS i
        WHERE i.consumer > h.consumer
        ORDER BY i.consumer
        LIMIT 1
    ) AS n
), known AS (
    SELECT consumer FROM handled
    UNION
    SELECT consumer FROM semel.inbox_position
    UNION
    SELECT consumer FROM semel.inbox_attempt
    UNION
    SELECT consumer FROM semel.inbox_parked
)
SELECT
    k.consumer,
    (
        SELECT count(*)
        FROM (SELECT FROM semel.inbox AS i WHERE i.consumer = k.consumer LIMIT $2) AS seen
    ),
    count(p.state) FILTER (WHERE p.state = 'failed'),
    count(p.state) FILTER (WHERE p.state = 'retry'),
    min(p.parked_at_us) FILTER (WHERE p.state = 'failed'),
    (SELECT count(*) FROM semel.inbox_attempt AS a WHERE a.consumer = k.consumer),
    semel.now_us()
FROM known AS k
LEFT JOIN semel.inbox_parked AS p ON p.consumer = k.consumer
GROUP BY k.consumer
ORDER BY k.consumer
LIMIT $1;
