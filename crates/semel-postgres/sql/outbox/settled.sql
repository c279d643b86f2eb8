-- Tells what a destination has, as a snapshot and the position drawn before it, and how far the log is on
-- disk: a slot is read no further, and would be advanced past a commit that it was not asked about.
-- $1 destination
SELECT c.from_snapshot::text, c.from_pos, pg_current_wal_flush_lsn()::text
FROM semel.outbox_cursor AS c
WHERE c.destination = $1
ORDER BY c.seq DESC
LIMIT 1;
