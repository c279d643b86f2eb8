-- The leased form of the crate: what many callers ask at once, each kind in one call. They are
-- functions so that a session plans them once, also behind a pooler that allows no statements prepared
-- under names. The plan must fit tables of any size, since it is kept while they grow: each name is
-- looked up by the primary key, whatever the statistics say.

-- Claims many names, each at most once: reads the committed record of each, and writes one for each
-- that has none, if the lock of its name is free. A row whose lock was free and that was not granted
-- lost a race, came too late, or met a schema that does not bear this version.
--
-- Nobody waits here: whoever writes a name holds its lock until the end, so that an insert meets no
-- open transaction. The time is read row by row, after the lock.
CREATE FUNCTION semel.claim_leases(
    of_tenants text[], of_operations text[], of_keys text[], of_facets bytea[], of_locks bigint[],
    of_tokens bytea[], of_plans bytea[], of_digests bytea[], for_us bigint[], until_us bigint[],
    by_whom text[], of_version bigint
) RETURNS TABLE (
    nr bigint, now_us bigint, is_locked boolean, granted bigint, state text, token bytea, fence bigint,
    plan bytea, digest bytea, renewed_at_us bigint, lease_us bigint, takeovers bigint, compare boolean,
    incarnation bigint, created_at_us bigint, claimed_at_us bigint, settled_at_us bigint,
    claimed_by text, reason text, resolved_by bytea, pointer_kind text, pointer_id text,
    replay_until_us bigint, remember_until_us bigint, outcome bytea
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    seen bigint;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM semel.commits_durably();
    END IF;
    -- What has a record is only read. The statement after this one reads anew: a record that came
    -- between them is met by the insert.
    RETURN QUERY
    SELECT
        a.nr, semel.now_us(), NULL::boolean, NULL::bigint,
        s.state, s.token, s.fence, s.plan, s.digest, s.renewed_at_us, s.lease_us, s.takeovers,
        s.compare, s.incarnation, s.created_at_us, s.claimed_at_us, s.settled_at_us, s.claimed_by,
        s.reason, s.resolved_by, s.pointer_kind, s.pointer_id, s.replay_until_us,
        s.remember_until_us, s.outcome
    FROM unnest(of_tenants, of_operations, of_keys, of_facets)
        WITH ORDINALITY AS a (tenant, operation, key, facet, nr)
    CROSS JOIN LATERAL (
        SELECT *
        FROM semel.seen AS r
        WHERE r.tenant = a.tenant AND r.operation = a.operation AND r.key = a.key
            AND r.facet = a.facet
        LIMIT 1
    ) AS s;
    GET DIAGNOSTICS seen = ROW_COUNT;
    IF seen = cardinality(of_keys) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH locked AS MATERIALIZED (
        SELECT a.*, pg_try_advisory_xact_lock(a.lock) AS is_locked
        FROM unnest(
            of_tenants, of_operations, of_keys, of_facets, of_locks, of_tokens, of_plans,
            of_digests, for_us, until_us, by_whom
        ) WITH ORDINALITY AS a (
            tenant, operation, key, facet, lock, token, plan, digest, lease_us, not_after_us,
            claimed_by, nr
        )
        WHERE seen = 0 OR NOT EXISTS (
            SELECT FROM semel.record AS r
            WHERE r.tenant = a.tenant AND r.operation = a.operation AND r.key = a.key
                AND r.facet = a.facet
        )
    ), timed AS MATERIALIZED (
        SELECT l.*, semel.now_us() AS now_us FROM locked AS l
    ), inserted AS (
        INSERT INTO semel.record (
            tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us,
            lease_us, created_at_us, claimed_at_us, claimed_by, replay_until_us, remember_until_us
        )
        SELECT
            t.tenant, t.operation, t.key, t.facet, 'running', t.token,
            greatest(m.floor + 1, t.now_us), t.plan, t.digest, t.now_us, t.lease_us, t.now_us,
            t.now_us, t.claimed_by, 9223372036854775807, 9223372036854775807
        FROM timed AS t
        CROSS JOIN semel.meta AS m
        WHERE m.one AND t.is_locked AND t.now_us <= t.not_after_us AND m.oldest <= of_version
        ON CONFLICT DO NOTHING
        RETURNING tenant, operation, key, facet, fence
    )
    SELECT
        t.nr, t.now_us, t.is_locked, i.fence,
        NULL, NULL::bytea, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bigint, NULL::bigint,
        NULL::bigint, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL,
        NULL, NULL::bytea, NULL, NULL, NULL::bigint, NULL::bigint, NULL::bytea
    FROM timed AS t
    LEFT JOIN inserted AS i
        ON i.tenant = t.tenant AND i.operation = t.operation AND i.key = t.key AND i.facet = t.facet;
END
$$;

-- Stores the ends of many runs whose permits still hold, and says which it stored. A row that another
-- transaction changed since the statement began is judged as it is now.
CREATE FUNCTION semel.complete_leases(
    of_tenants text[], of_operations text[], of_keys text[], of_facets bytea[], of_locks bigint[],
    of_tokens bytea[], of_fences bigint[], to_states text[], for_reasons text[], to_kinds text[],
    to_ids text[], replay_for_us bigint[], remember_for_us bigint[], of_outcomes bytea[]
) RETURNS TABLE (nr bigint)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM semel.commits_durably();
    END IF;
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.*
        FROM unnest(
            of_tenants, of_operations, of_keys, of_facets, of_locks, of_tokens, of_fences,
            to_states, for_reasons, to_kinds, to_ids, replay_for_us, remember_for_us, of_outcomes
        ) WITH ORDINALITY AS a (
            tenant, operation, key, facet, lock, token, fence, state, reason, pointer_kind,
            pointer_id, replay_us, remember_us, outcome, nr
        )
    ), locked AS MATERIALIZED (
        SELECT a.*, pg_try_advisory_xact_lock(a.lock) AS is_locked
        FROM asked AS a
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
    SELECT e.nr FROM ended AS e;
END
$$;

-- Renews the leases of permits that hold, in the order asked. A function, since a renewal must read
-- again after the locks: a take-over that was committed while it waited for its turn has ended the
-- permit. Where a lock is not free, nothing is written and the committed record tells who holds.
CREATE FUNCTION semel.renew_leases(
    of_tenants text[], of_operations text[], of_keys text[], of_facets bytea[], of_locks bigint[],
    of_tokens bytea[], of_fences bigint[], for_us bigint[]
) RETURNS TABLE (is_locked boolean, is_held boolean)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    free boolean[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'semel: leases are renewed in READ COMMITTED transactions'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM semel.commits_durably();
    END IF;
    free := ARRAY(
        SELECT pg_try_advisory_xact_lock(a.lock)
        FROM unnest(of_locks) WITH ORDINALITY AS a (lock, nr)
        ORDER BY a.nr
    );
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.*
        FROM unnest(
            of_tenants, of_operations, of_keys, of_facets, of_tokens, of_fences, for_us, free
        ) WITH ORDINALITY AS a (
            tenant, operation, key, facet, token, fence, lease_us, is_free, nr
        )
    ), held AS MATERIALIZED (
        SELECT a.*
        FROM asked AS a
        CROSS JOIN LATERAL (
            SELECT FROM semel.record AS r
            WHERE r.tenant = a.tenant AND r.operation = a.operation AND r.key = a.key
                AND r.facet = a.facet AND r.token = a.token AND r.fence = a.fence
                AND r.state = 'running'
            LIMIT 1
        ) AS r
    ), written AS (
        INSERT INTO semel.lease AS l (token, fence, renewed_at_us, lease_us)
        SELECT h.token, h.fence, semel.now_us(), h.lease_us FROM held AS h WHERE h.is_free
        ON CONFLICT (token) DO UPDATE SET
            fence = excluded.fence, renewed_at_us = excluded.renewed_at_us,
            lease_us = excluded.lease_us
    )
    SELECT a.is_free, EXISTS (SELECT FROM held AS h WHERE h.nr = a.nr)
    FROM asked AS a
    ORDER BY a.nr;
END
$$;

REVOKE ALL ON FUNCTION semel.claim_leases, semel.complete_leases, semel.renew_leases FROM PUBLIC;
