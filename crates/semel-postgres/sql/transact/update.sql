-- Writes the final record of an intent over the record that its claim saw; fails if that is gone.
-- $1 to $22 as in insert.sql; $23 token seen, $24 fence seen, $25 state seen
WITH written AS (
    UPDATE semel.record AS r
    SET
        state = $5, token = $6, fence = $7, plan = $8, digest = $9, renewed_at_us = $10,
        lease_us = NULL, takeovers = $11, compare = $12, incarnation = $13, created_at_us = $14,
        claimed_at_us = $15, claimed_by = $16, reason = NULL, resolved_by = NULL,
        pointer_kind = $17, pointer_id = $18, settled_at_us = t.now, replay_until_us = t.now + $19,
        remember_until_us = t.now + $20, sweep_at_us = t.now + least($19, $20), outcome = $21
    FROM (SELECT semel.now_us() AS now) AS t
    WHERE
        r.tenant = $1 AND r.operation = $2 AND r.key = $3 AND r.facet = $4
        AND r.token = $23 AND r.fence = $24 AND r.state = $25
    RETURNING true
)
SELECT
    CASE
        WHEN strpos(coalesce(current_setting('semel_claim.marks', true), ''), $22) = 0
            THEN semel.refuse(
                'SM005',
                'semel: this is not the transaction that claimed, or the claim was undone',
                'claim and complete in one transaction, outside of savepoints that are rolled back'
            )
        WHEN NOT EXISTS (SELECT FROM written)
            THEN semel.refuse(
                '40001',
                'semel: another transaction wrote this intent since it was claimed',
                'begin a new transaction and claim again'
            )
        ELSE true
    END;
