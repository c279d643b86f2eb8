-- Lists the positions of a consumer.
-- ?1 consumer, ?2 how many at most
SELECT log, next FROM semel_inbox_position WHERE consumer = ?1 ORDER BY log LIMIT ?2;
