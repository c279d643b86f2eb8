-- Keeps what the run of a message recorded.
-- ?1 consumer, ?2 source, ?3 id, ?4 ids of events, a JSON array, ?5 answer
UPDATE semel_inbox SET events = ?4, answer = ?5
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3 AND standing = 'done';
