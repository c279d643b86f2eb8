-- Reads one record by its name together with the schema and the persisted time, from one snapshot:
-- one statement needs no BEGIN and COMMIT around it. No join: with one, SQLite would plan the
-- statement anew for each set of values.
-- ?1 tenant, ?2 operation, ?3 key, ?4 facet (empty: none)
SELECT
    row_id, state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers, compare,
    incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, outcome,
    (SELECT time_us FROM semel_meta WHERE one = 1),
    (SELECT schema FROM semel_meta WHERE one = 1)
FROM semel_record
WHERE tenant = ?1 AND operation = ?2 AND key = ?3 AND facet = ?4;
