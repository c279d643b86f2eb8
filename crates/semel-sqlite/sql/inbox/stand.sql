-- Writes how a parked message stands by an operator's word.
-- ?1 consumer, ?2 source, ?3 id, ?4 parked or left-out
UPDATE semel_inbox SET standing = ?4
WHERE
    consumer = ?1 AND source = ?2 AND message_id = ?3 AND standing IN ('parked', 'left-out')
    AND EXISTS (
        SELECT 1 FROM semel_inbox_parked
        WHERE consumer = ?1 AND source = ?2 AND message_id = ?3
    );
