-- Deletes the oldest rows of the audit past the bound, some at a time: a word may bring many.
-- $1 how many stay
DELETE FROM semel.outbox_audit
WHERE row_id IN (
    SELECT row_id
    FROM semel.outbox_audit
    WHERE row_id <= (SELECT max(row_id) FROM semel.outbox_audit) - $1
    ORDER BY row_id
    LIMIT 10000
    FOR UPDATE SKIP LOCKED
);
