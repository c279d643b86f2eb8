-- Counts what is running, running past its lease, and unknown, and tells the oldest running claim.
-- ?1 now
SELECT
    count(*) FILTER (WHERE state = 'running'),
    count(*) FILTER (WHERE state = 'running' AND renewed_at_us + lease_us <= ?1),
    count(*) FILTER (WHERE state = 'unknown'),
    min(claimed_at_us) FILTER (WHERE state = 'running')
FROM semel_record INDEXED BY semel_record_held
WHERE sweep_at_us IS NULL;
