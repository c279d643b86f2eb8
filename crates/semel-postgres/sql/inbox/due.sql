-- Lists parked messages that are to be run again, the oldest first.
-- $1 consumer, $2 how many at most
SELECT consumer, source, message_id, state, attempts, why, parked_at_us, payload, key, log,
    log_offset, sent_at_us, header_names, header_values
FROM semel.inbox_parked
WHERE consumer = $1 AND state = 'retry'
ORDER BY parked_at_us
LIMIT $2;
