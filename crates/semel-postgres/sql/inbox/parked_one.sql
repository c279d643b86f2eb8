-- Reads the copy of a parked message.
-- $1 consumer, $2 source, $3 id
SELECT consumer, source, message_id, state, attempts, why, parked_at_us, payload, key, log,
    log_offset, sent_at_us, header_names, header_values
FROM semel.inbox_parked
WHERE consumer = $1 AND source = $2 AND message_id = $3;
