-- Reads one record by its name, with its lease as last renewed.
-- $1 tenant, $2 operation, $3 key, $4 facet (empty: none)
SELECT
    state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers, compare, incarnation,
    created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by, pointer_kind,
    pointer_id, replay_until_us, remember_until_us, outcome
FROM semel.seen
WHERE tenant = $1 AND operation = $2 AND key = $3 AND facet = $4;
