-- Lists records in the order of their names.
-- $1 tenant, $2 operation, $3 key, $4 facet: only after this name; $5 operation or NULL,
-- $6 state or NULL, $7 how many at most
SELECT
    tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers,
    compare, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, outcome
FROM semel.seen
WHERE
    (tenant, operation, key, facet) > ($1, $2, $3, $4)
    AND ($5::text IS NULL OR operation = $5)
    AND ($6::text IS NULL OR state = $6)
    AND (state IN ('running', 'unknown') OR remember_until_us > (SELECT semel.now_us()))
ORDER BY tenant, operation, key, facet
LIMIT $7;
