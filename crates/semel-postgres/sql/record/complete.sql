-- Stores the ends of many runs whose permits still hold; see the function.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 locks, $6 tokens, $7 fences,
-- $8 states, $9 reasons, $10 pointer kinds, $11 pointer ids, $12 spans of replay, $13 spans of memory,
-- $14 outcomes
SELECT nr
FROM semel.complete_leases($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);
