-- Marks a parked message.
-- ?1 consumer, ?2 source, ?3 id, ?4 state
UPDATE semel_inbox_parked SET state = ?4 WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
