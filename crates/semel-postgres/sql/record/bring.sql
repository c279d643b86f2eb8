-- Writes many records as they are, each unless its name has one, and says which it wrote. What is over by
-- the server's time is left out, and nothing is said of it.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 states, $6 tokens, $7 fences, $8 plans,
-- $9 digests, $10 renewed at, $11 leases, $12 takeovers, $13 compare (1: yes), $14 incarnations,
-- $15 created at, $16 claimed at, $17 settled at, $18 claimed by, $19 reasons, $20 resolved by,
-- $21 pointer kinds, $22 pointer ids, $23 replay until, $24 remember until, $25 sweep at, $26 outcomes
WITH brought AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bytea[], $7::bigint[],
        $8::bytea[], $9::bytea[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
        $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[],
        $20::bytea[], $21::text[], $22::text[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bytea[]
    ) WITH ORDINALITY AS b (
        tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us,
        takeovers, compare, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason,
        resolved_by, pointer_kind, pointer_id, replay_until_us, remember_until_us, sweep_at_us, outcome,
        nr
    )
), inserted AS (
    INSERT INTO semel.record (
        tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us,
        takeovers, compare, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason,
        resolved_by, pointer_kind, pointer_id, replay_until_us, remember_until_us, sweep_at_us, outcome
    )
    SELECT
        tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us,
        takeovers, compare = 1, incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by,
        reason, resolved_by, pointer_kind, pointer_id, replay_until_us, remember_until_us, sweep_at_us,
        outcome
    FROM brought
    WHERE state IN ('running', 'unknown') OR remember_until_us > (SELECT semel.now_us())
    ON CONFLICT DO NOTHING
    RETURNING tenant, operation, key, facet
)
SELECT b.nr
FROM brought AS b
JOIN inserted AS i USING (tenant, operation, key, facet);
