-- Lists parked messages in the order of consumers and names.
-- $1, $2, $3 behind which (empty: from the first), $4 consumer (NULL: all), $5 state (NULL: all),
-- $6 how many at most
SELECT consumer, source, message_id, state, attempts, why, parked_at_us, payload, key, log,
    log_offset, sent_at_us, header_names, header_values
FROM semel.inbox_parked
WHERE (consumer, source, message_id) > ($1, $2, $3) AND ($4::text IS NULL OR consumer = $4)
    AND ($5::text IS NULL OR state = $5)
ORDER BY consumer, source, message_id
LIMIT $6;
