-- Deletes business references past their time, a bounded number; never waits.
-- $1 how many at most
DELETE FROM semel.reference
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM semel.reference
    WHERE until_us <= (SELECT semel.now_us())
    ORDER BY until_us
    LIMIT $1
    FOR UPDATE SKIP LOCKED
));
