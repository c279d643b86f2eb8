-- Stores the end of a run that is still its permit's: the common case, without reading first. What no
-- row answers to is read, and decided by that.
-- ?1 tenant, ?2 operation, ?3 key, ?4 facet (empty: none), ?5 token, ?6 fence, ?7 state,
-- ?8 settled at, ?9 reason, ?10 pointer kind, ?11 pointer id, ?12 replay until, ?13 remember until,
-- ?14 sweep at, ?15 outcome
UPDATE semel_record
SET
    state = ?7, settled_at_us = ?8, reason = ?9, pointer_kind = ?10, pointer_id = ?11,
    replay_until_us = ?12, remember_until_us = ?13, sweep_at_us = ?14, outcome = ?15
WHERE
    tenant = ?1 AND operation = ?2 AND key = ?3 AND facet = ?4
    AND token = ?5 AND fence = ?6 AND state = 'running' AND resolved_by IS NULL;
