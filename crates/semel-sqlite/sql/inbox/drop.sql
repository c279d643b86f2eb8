-- Deletes the copy of a message.
-- ?1 consumer, ?2 source, ?3 id
DELETE FROM semel_inbox_parked WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
