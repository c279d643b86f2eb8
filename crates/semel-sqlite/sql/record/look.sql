-- Reads one record by its name together with the persisted time, from one snapshot: one statement
-- needs no BEGIN and COMMIT around it. Always one row; without a record its columns are NULL.
-- ?1 tenant, ?2 operation, ?3 key, ?4 facet (empty: none)
SELECT
    r.row_id, r.state, r.token, r.fence, r.plan, r.digest, r.renewed_at_us, r.lease_us,
    r.takeovers, r.compare, r.incarnation, r.created_at_us, r.claimed_at_us, r.settled_at_us,
    r.claimed_by, r.reason, r.resolved_by, r.pointer_kind, r.pointer_id, r.replay_until_us,
    r.remember_until_us, r.outcome, m.time_us, m.schema
FROM semel_meta AS m
LEFT JOIN semel_record AS r
    ON r.tenant = ?1 AND r.operation = ?2 AND r.key = ?3 AND r.facet = ?4
WHERE m.one = 1;
