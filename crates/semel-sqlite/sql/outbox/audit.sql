-- Lists what operators said, the newest first.
-- ?1 how many at most, ?2 destination or NULL
SELECT destination, at_us, kind, event, rows, actor, note
FROM semel_outbox_audit
WHERE ?2 IS NULL OR destination = ?2
ORDER BY row_id DESC
LIMIT ?1;
