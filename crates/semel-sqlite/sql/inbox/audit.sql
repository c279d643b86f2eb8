-- Lists the audit of inboxes, newest first.
-- ?1 how many at most, ?2 consumer or NULL
SELECT at_us, kind, consumer, source, message_id, actor, note
FROM semel_inbox_audit
WHERE ?2 IS NULL OR consumer = ?2
ORDER BY row_id DESC
LIMIT ?1;
