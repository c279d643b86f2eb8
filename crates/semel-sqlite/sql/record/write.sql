-- Writes the next state of a record, if it is still what was seen.
-- ?1 row, ?2 token seen, ?3 fence seen, ?4 state seen, ?5 state, ?6 token, ?7 fence, ?8 plan,
-- ?9 digest, ?10 renewed at, ?11 lease, ?12 takeovers, ?13 compare, ?14 incarnation,
-- ?15 created at, ?16 claimed at, ?17 settled at, ?18 claimed by, ?19 reason, ?20 resolved by,
-- ?21 pointer kind, ?22 pointer id, ?23 replay until, ?24 remember until, ?25 sweep at, ?26 outcome
UPDATE semel_record
SET
    state = ?5, token = ?6, fence = ?7, plan = ?8, digest = ?9, renewed_at_us = ?10,
    lease_us = ?11, takeovers = ?12, compare = ?13, incarnation = ?14, created_at_us = ?15,
    claimed_at_us = ?16, settled_at_us = ?17, claimed_by = ?18, reason = ?19, resolved_by = ?20,
    pointer_kind = ?21, pointer_id = ?22, replay_until_us = ?23, remember_until_us = ?24,
    sweep_at_us = ?25, outcome = ?26
WHERE row_id = ?1 AND token = ?2 AND fence = ?3 AND state = ?4;
