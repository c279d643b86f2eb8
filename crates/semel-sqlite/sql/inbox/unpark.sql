-- Deletes the copy of a message that was parked and is done.
-- ?1 consumer, ?2 source, ?3 id
DELETE FROM semel_inbox_parked
WHERE
    consumer = ?1 AND source = ?2 AND message_id = ?3
    AND EXISTS (
        SELECT 1 FROM semel_inbox
        WHERE consumer = ?1 AND source = ?2 AND message_id = ?3 AND standing = 'done'
    );
