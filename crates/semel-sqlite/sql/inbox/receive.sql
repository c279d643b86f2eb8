-- Remembers a message in the transaction of its effect, unless it is remembered already.
-- ?1 consumer, ?2 source, ?3 id, ?4 fingerprint, ?5 now, ?6 until when it is remembered
INSERT INTO semel_inbox (
    consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
) VALUES (?1, ?2, ?3, ?4, 'done', ?5, ?6)
ON CONFLICT (consumer, source, message_id) DO NOTHING;
