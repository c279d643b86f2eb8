-- Lists parked messages that are to be run again, the oldest first.
-- ?1 consumer, ?2 how many at most
SELECT
    row_id, consumer, source, message_id, state, attempts, why, parked_at_us, log, log_offset,
    sent_at_us, "key", payload
FROM semel_inbox_parked
WHERE consumer = ?1 AND state = 'retry'
ORDER BY parked_at_us
LIMIT ?2;
