-- Takes a parked message back, in the transaction of its effect, unless somebody else had it meanwhile.
-- It stays remembered for ever, and its copy until its attempts are counted no longer: so that what it
-- recorded is sent, whoever is gone before.
-- ?1 consumer, ?2 source, ?3 id, ?4 now
UPDATE semel_inbox SET standing = 'done', received_at_us = ?4
WHERE consumer = ?1 AND source = ?2 AND message_id = ?3 AND standing = 'parked';
