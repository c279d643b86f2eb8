-- Gives the last attempt of a message back; without any a row is left for the next statement.
-- ?1 consumer, ?2 source, ?3 id
UPDATE semel_inbox_attempt SET count = count - 1
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3;
