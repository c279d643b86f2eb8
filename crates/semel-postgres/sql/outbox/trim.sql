-- Deletes the oldest rows of the audit past the bound, a few at a time.
-- $1 how many stay
DELETE FROM semel.outbox_audit
WHERE row_id IN (
    SELECT row_id
    FROM semel.outbox_audit
    WHERE row_id <= (SELECT max(row_id) FROM semel.outbox_audit) - $1
    ORDER BY row_id
    LIMIT 100
    FOR UPDATE SKIP LOCKED
);
