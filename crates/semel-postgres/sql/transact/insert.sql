-- Writes the final record of an intent that had none. The primary key is the judge: never ON CONFLICT
-- DO NOTHING here, since a lost race must fail the transaction.
-- $1 to $16 name, state, token, fence, plan, digest, renewed at, takeovers, compare, incarnation,
-- created at, claimed at, claimed by; $17 pointer kind, $18 pointer id, $19 how long the outcome is
-- replayed, $20 how long the record is remembered, $21 outcome, $22 the claim's mark
INSERT INTO semel.record (
    tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, takeovers,
    compare, incarnation, created_at_us, claimed_at_us, claimed_by, pointer_kind, pointer_id,
    settled_at_us, replay_until_us, remember_until_us, sweep_at_us, outcome
)
SELECT
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
    t.now, t.now + $19, t.now + $20, t.now + least($19, $20), $21
FROM (SELECT semel.now_us() AS now) AS t
WHERE
    CASE
        WHEN strpos(coalesce(current_setting('semel_claim.marks', true), ''), $22) > 0 THEN true
        ELSE semel.refuse(
            'SM005',
            'semel: this is not the transaction that claimed, or the claim was undone',
            'claim and complete in one transaction, outside of savepoints that are rolled back'
        )
    END;
