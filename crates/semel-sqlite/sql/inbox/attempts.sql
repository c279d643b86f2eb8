-- Reads how often a message was run.
-- ?1 consumer, ?2 source, ?3 id
SELECT count, first_at_us FROM semel_inbox_attempt
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
