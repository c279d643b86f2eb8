-- Reads many records by their names, in the order asked, and what a decision needs beside them. One
-- row without a record if nothing is asked.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none)
SELECT
    semel.now_us(), m.floor, m.oldest,
    s.state, s.token, s.fence, s.plan, s.digest, s.renewed_at_us, s.lease_us, s.takeovers, s.compare,
    s.incarnation, s.created_at_us, s.claimed_at_us, s.settled_at_us, s.claimed_by, s.reason,
    s.resolved_by, s.pointer_kind, s.pointer_id, s.replay_until_us, s.remember_until_us, s.outcome
FROM semel.meta AS m
LEFT JOIN unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
    WITH ORDINALITY AS a (tenant, operation, key, facet, nr) ON true
LEFT JOIN LATERAL (
    SELECT *
    FROM semel.seen AS r
    WHERE r.tenant = a.tenant AND r.operation = a.operation AND r.key = a.key AND r.facet = a.facet
    LIMIT 1
) AS s ON true
ORDER BY a.nr;
