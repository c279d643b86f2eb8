-- Writes the record of a name that has none. The primary key is the judge: never ON CONFLICT DO
-- NOTHING here, since a lost race must fail the transaction.
-- $1 tenant, $2 operation, $3 key, $4 facet (empty: none), $5 state, $6 token, $7 fence, $8 plan,
-- $9 digest, $10 renewed at, $11 lease, $12 takeovers, $13 compare, $14 incarnation,
-- $15 created at, $16 claimed at, $17 settled at, $18 claimed by, $19 reason, $20 resolved by,
-- $21 pointer kind, $22 pointer id, $23 replay until, $24 remember until, $25 sweep at, $26 outcome
INSERT INTO semel.record (
    tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us,
    takeovers, compare, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason,
    resolved_by, pointer_kind, pointer_id, replay_until_us, remember_until_us, sweep_at_us, outcome
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
    $22, $23, $24, $25, $26
);
