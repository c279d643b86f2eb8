-- Adds rows to the audit in order, each unless the same row is there.
-- $1 at, $2 kinds, $3 tenants, $4 operations, $5 keys, $6 facets (empty: none), $7 actors, $8 notes
INSERT INTO semel.audit (at_us, kind, tenant, operation, key, facet, actor, note)
SELECT a.at_us, a.kind, a.tenant, a.operation, a.key, a.facet, a.actor, a.note
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[]
) WITH ORDINALITY AS a (at_us, kind, tenant, operation, key, facet, actor, note, nr)
WHERE NOT EXISTS (
    SELECT
    FROM semel.audit AS k
    WHERE k.tenant = a.tenant AND k.operation = a.operation AND k.key = a.key AND k.facet = a.facet
        AND k.at_us = a.at_us AND k.kind = a.kind AND k.actor = a.actor AND k.note = a.note
)
ORDER BY a.nr;
