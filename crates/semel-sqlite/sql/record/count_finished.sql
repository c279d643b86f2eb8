-- Counts finished and open records by what they mean now; reads the index alone.
-- ?1 now
SELECT
    count(*) FILTER (WHERE state IN ('done', 'failed') AND replay_until_us > ?1),
    count(*) FILTER (WHERE state IN ('done', 'failed') AND replay_until_us <= ?1),
    count(*) FILTER (WHERE state = 'open')
FROM semel_record INDEXED BY semel_record_sweep
WHERE sweep_at_us IS NOT NULL AND remember_until_us > ?1;
