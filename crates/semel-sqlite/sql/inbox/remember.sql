-- Remembers for ever that a message is parked, unless it was handled or left out.
-- ?1 consumer, ?2 source, ?3 id, ?4 fingerprint, ?5 now
INSERT INTO semel_inbox (
    consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
) VALUES (?1, ?2, ?3, ?4, 'parked', ?5, NULL)
ON CONFLICT (consumer, source, message_id) DO UPDATE SET received_at_us = received_at_us
WHERE standing = 'parked';
