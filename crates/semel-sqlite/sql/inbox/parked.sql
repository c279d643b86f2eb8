-- Lists parked messages in the order of consumers and names.
-- ?1, ?2, ?3 behind which (empty: from the first), ?4 consumer or NULL, ?5 state or NULL, ?6 how many at
-- most
SELECT
    row_id, consumer, source, message_id, state, attempts, why, parked_at_us, log, log_offset,
    sent_at_us, "key", payload
FROM semel_inbox_parked
WHERE
    (consumer, source, message_id) > (?1, ?2, ?3)
    AND (?4 IS NULL OR consumer = ?4)
    AND (?5 IS NULL OR state = ?5)
ORDER BY consumer, source, message_id
LIMIT ?6;
