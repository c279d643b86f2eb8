-- Lists what a consumer remembers, in the order of names.
-- ?1 consumer, ?2, ?3 behind which (empty: from the first), ?4 how many at most
SELECT fingerprint, standing, answer, events, received_at_us, consumer, source, message_id
FROM semel_inbox
WHERE consumer = ?1 AND (source, message_id) > (?2, ?3)
ORDER BY source, message_id
LIMIT ?4;
