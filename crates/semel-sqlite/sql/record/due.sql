-- Lists what the sweep has something to do with, the most overdue first. In place of the outcome
-- stands its size: the sweep needs no bytes, and a damaged outcome must not stop it.
-- ?1 now, ?2 how many at most
SELECT
    row_id, state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers, compare,
    incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, length(outcome),
    tenant, operation, key, facet
FROM semel_record
WHERE sweep_at_us <= ?1
ORDER BY sweep_at_us
LIMIT ?2;
