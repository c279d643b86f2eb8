-- Lists the positions of all consumers.
-- $1 how many at most
SELECT consumer, log, next
FROM semel.inbox_position
ORDER BY consumer, log
LIMIT $1;
