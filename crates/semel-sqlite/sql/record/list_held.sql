-- Lists what is running, stuck or unknown in the order of the names. These are few among many, so
-- their own index finds them and the order is made afterwards.
-- ?1 tenant, ?2 operation, ?3 key, ?4 facet: only after this name; ?5 operation or NULL,
-- ?6 state, ?7 now, ?8 how many at most, ?9 tenant or NULL, ?10 whether only past the lease
SELECT
    row_id, state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers, compare,
    incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, outcome,
    tenant, operation, key, facet
FROM semel_record INDEXED BY semel_record_held
WHERE
    sweep_at_us IS NULL
    AND state = ?6
    AND (tenant, operation, key, facet) > (?1, ?2, ?3, ?4)
    AND (?5 IS NULL OR operation = ?5)
    AND (?9 IS NULL OR tenant = ?9)
    AND (NOT ?10 OR (state = 'running' AND renewed_at_us + lease_us <= ?7))
ORDER BY tenant, operation, key, facet
LIMIT ?8;
