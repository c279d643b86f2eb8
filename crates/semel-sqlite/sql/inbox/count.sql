-- Counts an attempt of a message.
-- ?1 consumer, ?2 source, ?3 id, ?4 now
INSERT INTO semel_inbox_attempt (consumer, source, message_id, count, first_at_us, last_at_us)
VALUES (?1, ?2, ?3, 1, ?4, ?4)
ON CONFLICT (consumer, source, message_id) DO UPDATE SET count = count + 1, last_at_us = ?4;
