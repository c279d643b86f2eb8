-- Reads up to where a consumer has a log.
-- ?1 consumer, ?2 log
SELECT next FROM semel_inbox_position WHERE consumer = ?1 AND log = ?2;
