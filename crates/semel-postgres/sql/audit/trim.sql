-- Deletes the oldest rows past the bound, a few at a time; never waits for another who does so.
-- $1 how many stay
DELETE FROM semel.audit
WHERE row_id IN (
    SELECT row_id
    FROM semel.audit
    WHERE row_id <= (SELECT max(row_id) FROM semel.audit) - $1
    ORDER BY row_id
    LIMIT 100
    FOR UPDATE SKIP LOCKED
);
