-- Writes the next state of a record, if it is still what was seen.
-- $1 to $26 as in insert.sql; $27 token seen, $28 fence seen, $29 state seen
UPDATE semel.record
SET
    state = $5, token = $6, fence = $7, plan = $8, digest = $9, renewed_at_us = $10, lease_us = $11,
    takeovers = $12, compare = $13, incarnation = $14, created_at_us = $15, claimed_at_us = $16,
    settled_at_us = $17, claimed_by = $18, reason = $19, resolved_by = $20, pointer_kind = $21,
    pointer_id = $22, replay_until_us = $23, remember_until_us = $24, sweep_at_us = $25, outcome = $26
WHERE
    tenant = $1 AND operation = $2 AND key = $3 AND facet = $4
    AND token = $27 AND fence = $28 AND state = $29;
