-- Reads the copy of a parked message.
-- ?1 consumer, ?2 source, ?3 id
SELECT
    row_id, consumer, source, message_id, state, attempts, why, parked_at_us, log, log_offset,
    sent_at_us, "key", payload
FROM semel_inbox_parked
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
