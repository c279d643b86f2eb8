-- Counts records by what they mean now, in one snapshot; reads the rows that are held, and of the
-- finished ones an index.
SELECT
    f.done, f.forgotten, f.open, h.running, h.stuck, h.unknown, h.oldest
FROM (SELECT semel.now_us() AS now_us OFFSET 0) AS n
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE state IN ('done', 'failed') AND replay_until_us > n.now_us) AS done,
        count(*) FILTER (WHERE state IN ('done', 'failed') AND replay_until_us <= n.now_us)
            AS forgotten,
        count(*) FILTER (WHERE state = 'open') AS open
    FROM semel.record
    WHERE sweep_at_us IS NOT NULL AND remember_until_us > n.now_us
) AS f
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE state = 'running') AS running,
        count(*) FILTER (WHERE state = 'running' AND renewed_at_us <= n.now_us - lease_us) AS stuck,
        count(*) FILTER (WHERE state = 'unknown') AS unknown,
        min(claimed_at_us) FILTER (WHERE state = 'running') AS oldest
    FROM semel.seen
    WHERE sweep_at_us IS NULL
) AS h;
