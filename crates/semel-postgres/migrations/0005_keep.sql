-- Seeing and sweeping what is kept, from any driver.

-- Tells what is known of an intent. A claim inside a transaction that is still open cannot be seen: so
-- what is not recorded may be running, and is never called unused.
CREATE FUNCTION semel.status(
    tenant text,
    operation text,
    key text,
    facet bytea DEFAULT '',
    OUT state text,
    OUT advice text,
    OUT claimed_at timestamptz,
    OUT settled_at timestamptz,
    OUT lease_until timestamptz,
    OUT replay_until timestamptz,
    OUT remember_until timestamptz,
    OUT holder text,
    OUT reason text,
    OUT pointer_kind text,
    OUT pointer_id text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    seen semel.seen;
    now_us bigint;
BEGIN
    PERFORM semel.check_name(tenant, operation, key, facet);
    SELECT s.* INTO seen FROM semel.seen AS s
    WHERE s.tenant = status.tenant AND s.operation = status.operation AND s.key = status.key
        AND s.facet = status.facet;
    now_us := semel.now_us();
    state := CASE
        WHEN seen.state IS NULL THEN 'not-recorded'
        WHEN seen.state IN ('running', 'unknown') THEN seen.state
        WHEN now_us >= seen.remember_until_us THEN 'not-recorded'
        WHEN seen.state <> 'open' AND now_us >= seen.replay_until_us THEN 'forgotten'
        ELSE seen.state
    END;
    advice := CASE state
        WHEN 'not-recorded' THEN 'not recorded, may be running; retry with the same key'
        WHEN 'running' THEN 'a holder works on it; wait and retry with the same key'
        WHEN 'open' THEN 'no run had an effect; retry with the same key'
        WHEN 'unknown' THEN 'nobody can say whether it happened; do not use a new key'
        WHEN 'forgotten' THEN 'it was finished, and its outcome is no longer kept'
        ELSE 'it is finished; retry with the same key to get its outcome'
    END;
    IF state <> 'not-recorded' THEN
        claimed_at := semel.instant(seen.claimed_at_us);
        settled_at := semel.instant(seen.settled_at_us);
        lease_until := CASE
            WHEN state = 'running' THEN semel.lease_end(seen.renewed_at_us, seen.lease_us)
        END;
        replay_until := CASE
            WHEN seen.state IN ('done', 'failed') THEN semel.instant(seen.replay_until_us)
        END;
        remember_until := semel.instant(seen.remember_until_us);
        holder := seen.claimed_by;
        reason := seen.reason;
        pointer_kind := seen.pointer_kind;
        pointer_id := seen.pointer_id;
    END IF;
END
$$;

-- Drops what retention no longer asks for, in one bounded step: outcomes whose `replay_for` is over,
-- records whose `remember_for` is over, references and leases that nobody needs. What is busy is left
-- for the next step. `more`: call it again now. Only one sweep is at work at a time.
CREATE FUNCTION semel.sweep(
    records integer DEFAULT 500,
    OUT forgotten bigint,
    OUT deleted bigint,
    OUT references_deleted bigint,
    OUT more boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET lock_timeout = '1s'
AS $$
DECLARE
    due record;
    now_us bigint := semel.now_us();
    highest bigint;
    tokens bytea[];
BEGIN
    IF records IS NULL OR records NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'semel: records is not a number from 1 to 1024' USING ERRCODE = 'SM007';
    END IF;
    forgotten := 0;
    deleted := 0;
    references_deleted := 0;
    more := false;
    IF NOT pg_try_advisory_xact_lock(semel.lock_hash('', '', '', '\x53')) THEN
        RETURN;
    END IF;
    -- The locks first; what is done is decided by the statements after, under them.
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.operation) AS operations,
        array_agg(d.key) AS keys, array_agg(d.facet) AS facets, count(*) AS count
    INTO due
    FROM (
        SELECT r.tenant, r.operation, r.key, r.facet FROM semel.record AS r
        WHERE r.sweep_at_us <= now_us
        ORDER BY r.sweep_at_us LIMIT records
    ) AS d
    WHERE pg_try_advisory_xact_lock(semel.lock_hash(d.tenant, d.operation, d.key, d.facet));
    WITH gone AS (
        DELETE FROM semel.record AS r
        USING unnest(due.tenants, due.operations, due.keys, due.facets)
            AS d (tenant, operation, key, facet)
        WHERE r.tenant = d.tenant AND r.operation = d.operation AND r.key = d.key
            AND r.facet = d.facet AND r.state IN ('done', 'failed', 'open')
            AND r.remember_until_us <= now_us
        RETURNING r.token, r.fence
    )
    SELECT count(*), max(g.fence), array_agg(g.token) INTO deleted, highest, tokens FROM gone AS g;
    -- A name that comes again gets a larger fence than it ever had.
    UPDATE semel.meta AS m SET floor = highest WHERE m.floor < highest;
    WITH dropped AS (
        UPDATE semel.record AS r
        SET outcome = NULL, sweep_at_us = r.remember_until_us
        FROM unnest(due.tenants, due.operations, due.keys, due.facets)
            AS d (tenant, operation, key, facet)
        WHERE r.tenant = d.tenant AND r.operation = d.operation AND r.key = d.key
            AND r.facet = d.facet AND r.state IN ('done', 'failed')
            AND r.replay_until_us <= now_us AND r.remember_until_us > now_us
            AND r.outcome IS NOT NULL
        RETURNING r.token
    )
    SELECT count(*), tokens || array_agg(d.token) INTO forgotten, tokens FROM dropped AS d;
    DELETE FROM semel.lease AS l WHERE l.token = ANY (tokens);
    references_deleted := semel.sweep_references(records, now_us);
    more := due.count = records AND deleted + forgotten > 0 OR references_deleted = records;
END
$$;

-- Drops references whose time is over.
CREATE FUNCTION semel.sweep_references(records integer, now_us bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    due record;
    dropped bigint;
BEGIN
    SELECT array_agg(d.tenant) AS tenants, array_agg(d.operation) AS operations,
        array_agg(d.reference) AS names
    INTO due
    FROM (
        SELECT r.tenant, r.operation, r.reference FROM semel.reference AS r
        WHERE r.until_us <= now_us
        ORDER BY r.until_us LIMIT records
    ) AS d
    WHERE pg_try_advisory_xact_lock(semel.lock_hash(d.tenant, d.operation, d.reference, '\x52'));
    DELETE FROM semel.reference AS r
    USING unnest(due.tenants, due.operations, due.names) AS d (tenant, operation, reference)
    WHERE r.tenant = d.tenant AND r.operation = d.operation AND r.reference = d.reference
        AND r.until_us <= now_us;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END
$$;

-- The version of the schema: the number of the last migration.
CREATE FUNCTION semel.schema_version() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT max(m.version) FROM semel.migration AS m $$;

-- The records as people read them. No token is in it: whoever can see this can finish nothing.
CREATE VIEW semel.intent AS
SELECT
    s.tenant, s.operation, s.key, nullif(encode(s.facet, 'hex'), '') AS facet,
    CASE
        WHEN s.state IN ('running', 'unknown') THEN s.state
        WHEN s.remember_until_us <= n.now_us THEN 'over'
        WHEN s.state <> 'open' AND s.replay_until_us <= n.now_us THEN 'forgotten'
        ELSE s.state
    END AS state,
    get_byte(s.outcome, 5) * 256 + get_byte(s.outcome, 6) AS status,
    octet_length(s.outcome) AS outcome_bytes,
    s.pointer_kind, s.pointer_id, s.claimed_by, s.reason, s.fence, s.incarnation, s.takeovers,
    t.created_at, t.claimed_at, t.settled_at, t.lease_until, t.replay_until, t.remember_until
FROM semel.seen AS s
CROSS JOIN LATERAL (SELECT semel.now_us() AS now_us) AS n
CROSS JOIN LATERAL (
    SELECT
        semel.instant(s.created_at_us) AS created_at,
        semel.instant(s.claimed_at_us) AS claimed_at,
        semel.instant(s.settled_at_us) AS settled_at,
        CASE
            WHEN s.state = 'running' THEN semel.lease_end(s.renewed_at_us, s.lease_us)
        END AS lease_until,
        CASE
            WHEN s.state IN ('done', 'failed') THEN semel.instant(s.replay_until_us)
        END AS replay_until,
        semel.instant(s.remember_until_us) AS remember_until
) AS t;

-- Nobody calls anything but whom roles.sql names.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "semel" FROM PUBLIC;
