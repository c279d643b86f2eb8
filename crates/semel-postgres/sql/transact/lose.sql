-- Says of a lost holder that nobody knows what it did; fails if another transaction wrote first.
-- $1 tenant, $2 operation, $3 key, $4 facet (empty: none), $5 settled at, $6 reason, $7 token seen,
-- $8 fence seen
WITH written AS (
    UPDATE semel.record
    SET state = 'unknown', settled_at_us = $5, reason = $6
    WHERE
        tenant = $1 AND operation = $2 AND key = $3 AND facet = $4
        AND token = $7 AND fence = $8 AND state = 'running'
    RETURNING true
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM written) THEN true
        ELSE semel.refuse(
            '40001',
            'semel: another transaction wrote this intent since it was claimed',
            'begin a new transaction and claim again'
        )
    END;
