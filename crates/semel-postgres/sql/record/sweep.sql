-- Does one bounded step of the sweep: drops outcomes that are no longer replayed and records that are
-- no longer remembered, with their leases, and raises the floor of the fences in the same step. What
-- somebody else holds the lock of is left for later, so that nobody waits.
-- $1 how many records at most, $2 how many bytes of outcomes
WITH overdue AS MATERIALIZED (
    -- A few more than asked for, should some be held; only the size of the outcome is read.
    SELECT
        r.tenant, r.operation, r.key, r.facet, semel.now_us() AS now_us,
        sum(coalesce(pg_column_size(r.outcome), 0)) OVER before AS bytes
    FROM (
        SELECT *
        FROM semel.record
        WHERE sweep_at_us <= (SELECT semel.now_us())
        ORDER BY sweep_at_us
        LIMIT 2 * $1 + 1
    ) AS r
    WINDOW before AS (
        ORDER BY r.sweep_at_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), due AS MATERIALIZED (
    SELECT o.*
    FROM overdue AS o
    CROSS JOIN semel.meta AS m
    WHERE coalesce(o.bytes, 0) <= $2
        -- The lock of the name as semel.lock_hash has it, at a tenth of what a call costs.
        AND pg_try_advisory_xact_lock(('x' || encode(substr(sha256(
            m.lock_secret
            || int4send(octet_length(convert_to(o.tenant, 'UTF8'))) || convert_to(o.tenant, 'UTF8')
            || int4send(octet_length(o.operation)) || convert_to(o.operation, 'UTF8')
            || int4send(octet_length(o.key)) || convert_to(o.key, 'UTF8')
            || int4send(octet_length(o.facet)) || o.facet
        ), 1, 8), 'hex'))::bit(64)::bigint)
    LIMIT $1
), deleted AS (
    DELETE FROM semel.record AS r
    USING due AS d
    WHERE r.tenant = d.tenant AND r.operation = d.operation AND r.key = d.key AND r.facet = d.facet
        AND r.state IN ('done', 'failed', 'open') AND r.remember_until_us <= d.now_us
    RETURNING r.token, r.fence
), forgotten AS (
    UPDATE semel.record AS r
    SET outcome = NULL, sweep_at_us = r.remember_until_us
    FROM due AS d
    WHERE r.tenant = d.tenant AND r.operation = d.operation AND r.key = d.key AND r.facet = d.facet
        AND r.state IN ('done', 'failed') AND r.replay_until_us <= d.now_us
        AND r.remember_until_us > d.now_us AND r.outcome IS NOT NULL
    RETURNING r.token
), leases AS (
    DELETE FROM semel.lease AS l
    USING (SELECT token FROM deleted UNION ALL SELECT token FROM forgotten) AS g
    WHERE l.token = g.token
), raised AS (
    UPDATE semel.meta
    SET floor = (SELECT max(fence) FROM deleted)
    WHERE floor < (SELECT max(fence) FROM deleted)
)
SELECT
    (SELECT count(*) FROM forgotten),
    (SELECT count(*) FROM deleted),
    (SELECT count(*) FROM overdue) > (SELECT count(*) FROM due);
