-- Reads what is remembered of a message.
-- ?1 consumer, ?2 source, ?3 id
SELECT fingerprint, standing, answer, events, received_at_us
FROM semel_inbox
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
