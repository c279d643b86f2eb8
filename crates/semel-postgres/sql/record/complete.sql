-- Stores the ends of many runs whose permits still hold, and says which it stored. A row that another
-- transaction changed since the statement began is judged as it is now.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 locks, $6 tokens, $7 fences,
-- $8 states, $9 reasons, $10 pointer kinds, $11 pointer ids, $12 spans of replay, $13 spans of memory,
-- $14 outcomes
WITH asked AS MATERIALIZED (
    SELECT a.*
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bytea[], $7::bigint[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bytea[]
    ) WITH ORDINALITY AS a (
        tenant, operation, key, facet, lock, token, fence, state, reason, pointer_kind, pointer_id,
        replay_us, remember_us, outcome, nr
    )
), locked AS MATERIALIZED (
    SELECT a.*, pg_try_advisory_xact_lock(a.lock) AS is_locked
    FROM asked AS a
    WHERE semel.commits_durably()
), timed AS MATERIALIZED (
    SELECT l.*, semel.now_us() AS now_us FROM locked AS l WHERE l.is_locked
), kept AS MATERIALIZED (
    SELECT
        t.*,
        t.now_us + least(t.replay_us, 9223372036854775807 - t.now_us) AS replay_until_us,
        t.now_us + least(t.remember_us, 9223372036854775807 - t.now_us) AS remember_until_us
    FROM timed AS t
), ended AS (
    UPDATE semel.record AS r
    SET
        state = k.state, settled_at_us = k.now_us, reason = k.reason, pointer_kind = k.pointer_kind,
        pointer_id = k.pointer_id, outcome = k.outcome, replay_until_us = k.replay_until_us,
        remember_until_us = k.remember_until_us,
        sweep_at_us = CASE
            WHEN k.outcome IS NULL THEN k.remember_until_us
            ELSE least(k.replay_until_us, k.remember_until_us)
        END
    FROM kept AS k
    WHERE r.tenant = k.tenant AND r.operation = k.operation AND r.key = k.key AND r.facet = k.facet
        AND r.token = k.token AND r.fence = k.fence AND r.state = 'running'
        AND r.resolved_by IS NULL
    RETURNING k.nr, r.token
), dropped AS (
    DELETE FROM semel.lease AS l USING ended AS e WHERE l.token = e.token
)
SELECT nr FROM ended;
