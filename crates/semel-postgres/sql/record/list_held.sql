-- Lists what is running, stuck or unknown in the order of the names. These are few among many, so
-- their own index finds them and the order is made afterwards.
-- $1 tenant, $2 operation, $3 key, $4 facet: only after this name; $5 operation or NULL,
-- $6 state, $7 how many at most, $8 tenant or NULL, $9 whether only past the lease
SELECT
    tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers,
    compare, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, outcome
FROM semel.seen
WHERE
    sweep_at_us IS NULL
    AND state = $6
    AND (tenant, operation, key, facet) > ($1, $2, $3, $4)
    AND ($5::text IS NULL OR operation = $5)
    AND ($8::text IS NULL OR tenant = $8)
    AND (NOT $9 OR (state = 'running' AND renewed_at_us <= (SELECT semel.now_us()) - lease_us))
ORDER BY tenant, operation, key, facet
LIMIT $7;
