-- Drops an outcome that is replayed no longer; the tombstone stays.
-- ?1 row, ?2 now
UPDATE semel_record
SET outcome = NULL, sweep_at_us = remember_until_us
WHERE row_id = ?1 AND state IN ('done', 'failed') AND replay_until_us <= ?2;
