-- Adds a row to the audit, unless the same row is there.
-- ?1 at, ?2 kind, ?3 tenant, ?4 operation, ?5 key, ?6 facet (empty: none), ?7 actor, ?8 note
INSERT INTO semel_audit (at_us, kind, tenant, operation, key, facet, actor, note)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
WHERE NOT EXISTS (
    SELECT 1
    FROM semel_audit
    WHERE
        tenant = ?3 AND operation = ?4 AND key = ?5 AND facet = ?6
        AND at_us = ?1 AND kind = ?2 AND actor = ?7 AND note = ?8
);
