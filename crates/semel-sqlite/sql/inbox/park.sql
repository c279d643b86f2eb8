-- Keeps a copy of a message; of one that is parked already only its state changes.
-- ?1 consumer, ?2 source, ?3 id, ?4 attempts, ?5 why, ?6 now, ?7 log, ?8 offset, ?9 sent at, ?10 key,
-- ?11 payload
INSERT INTO semel_inbox_parked (
    consumer, source, message_id, state, attempts, why, parked_at_us, log, log_offset, sent_at_us,
    "key", payload
) VALUES (?1, ?2, ?3, 'failed', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (consumer, source, message_id) DO UPDATE
SET state = 'failed', attempts = ?4, why = ?5, parked_at_us = ?6
RETURNING row_id;
