-- Forgets the attempts of a message, if there are at most that many.
-- ?1 consumer, ?2 source, ?3 id, ?4 how many
DELETE FROM semel_inbox_attempt
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3 AND count <= ?4;
