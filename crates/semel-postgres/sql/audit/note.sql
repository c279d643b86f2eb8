-- Adds a row to the audit.
-- $1 at, $2 kind, $3 tenant, $4 operation, $5 key, $6 facet (empty: none), $7 actor, $8 note
INSERT INTO semel.audit (at_us, kind, tenant, operation, key, facet, actor, note)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);
