-- Reads up to where a consumer has logs.
-- $1 consumer, $2 logs
SELECT log, next
FROM semel.inbox_position
WHERE consumer = $1 AND log = ANY($2::text[]);
