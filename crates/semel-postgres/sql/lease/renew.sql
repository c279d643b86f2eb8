-- Renews many leases: says in order which locks were free, and which permits hold.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 locks, $6 tokens, $7 fences,
-- $8 leases
SELECT is_locked, is_held FROM semel.renew_leases($1, $2, $3, $4, $5, $6, $7, $8);
