-- Forgets messages whose time is over, and attempts that nobody asks for any more, in one bounded step.
-- What somebody else holds is left for later.
-- $1 how many of each at most, $2 how long after the last attempt its count is kept
WITH due AS MATERIALIZED (
    SELECT i.consumer, i.source, i.message_id
    FROM semel.inbox AS i
    WHERE i.remember_until_us <= (SELECT semel.now_us())
    ORDER BY i.remember_until_us
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), forgotten AS (
    DELETE FROM semel.inbox AS i
    USING due AS d
    WHERE i.consumer = d.consumer AND i.source = d.source AND i.message_id = d.message_id
        AND i.remember_until_us IS NOT NULL
    RETURNING 1
), stale AS MATERIALIZED (
    SELECT a.consumer, a.source, a.message_id
    FROM semel.inbox_attempt AS a
    WHERE a.last_at_us <= (SELECT semel.now_us()) - $2 OR EXISTS (
        SELECT FROM semel.inbox AS i
        WHERE i.consumer = a.consumer AND i.source = a.source AND i.message_id = a.message_id
    )
    LIMIT $1
    FOR UPDATE OF a SKIP LOCKED
), uncounted AS (
    DELETE FROM semel.inbox_attempt AS a
    USING stale AS s
    WHERE a.consumer = s.consumer AND a.source = s.source AND a.message_id = s.message_id
    RETURNING 1
)
SELECT (SELECT count(*) FROM forgotten), (SELECT count(*) FROM uncounted);
