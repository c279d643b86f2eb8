-- Lists the audit of inboxes, newest first.
-- $1 consumer (NULL: all), $2 how many at most
SELECT at_us, kind, consumer, source, message_id, actor, note
FROM semel.inbox_audit
WHERE $1::text IS NULL OR consumer = $1
ORDER BY row_id DESC
LIMIT $2;
