-- Counts an attempt of each message.
-- $1 consumer, $2 sources, $3 ids
SELECT source, message_id, count, first_at_us, now_us
FROM semel.count_attempts($1, $2, $3);
