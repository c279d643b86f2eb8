-- Deletes the oldest rows of the audit of inboxes past the bound, a few at a time; never waits for
-- another who does so.
-- $1 how many stay
DELETE FROM semel.inbox_audit
WHERE row_id IN (
    SELECT row_id
    FROM semel.inbox_audit
    WHERE row_id <= (SELECT max(row_id) FROM semel.inbox_audit) - $1
    ORDER BY row_id
    LIMIT 500
    FOR UPDATE SKIP LOCKED
);
