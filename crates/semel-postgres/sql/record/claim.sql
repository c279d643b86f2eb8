-- Claims many names, each at most once; see the function.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 locks, $6 tokens, $7 plans,
-- $8 digests, $9 leases, $10 not after, $11 claimed by, $12 the schema of this version
SELECT * FROM semel.claim_leases($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
