-- What the sweep has dropped stays forgotten, also by a clock that is behind the one it was dropped by,
-- as that of a promoted standby: a finished record without an outcome has nothing to replay.

-- As in 0003_claim, and what has no outcome is judged as past its replay.
CREATE OR REPLACE FUNCTION semel.look(
    tenant text, operation text, key text, facet bytea, asked_digest bytea, compare text, on_lost text,
    lock bigint, OUT seen semel.seen, OUT met text, OUT now_us bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    FOR pass IN 1 .. 2 LOOP
        SELECT s.* INTO seen FROM semel.seen AS s
        WHERE s.tenant = look.tenant AND s.operation = look.operation AND s.key = look.key
            AND s.facet = look.facet;
        now_us := semel.now_us();
        met := CASE
            WHEN seen.state = 'running' AND seen.lease_us IS NULL THEN 'held'
            ELSE semel.judge(
                seen.state, seen.plan, seen.digest, seen.compare,
                seen.renewed_at_us::numeric + seen.lease_us,
                CASE WHEN seen.outcome IS NULL THEN 0 ELSE seen.replay_until_us END,
                seen.remember_until_us, asked_digest, compare, on_lost, now_us
            )
        END;
        -- A lease that was renewed in the future, as by a promoted standby's clock, is rewritten.
        IF met = 'in-progress' AND seen.renewed_at_us > now_us THEN
            met := 'rewind';
        END IF;
        EXIT WHEN pass = 2 OR met NOT IN (
            'fresh', 'lose', 'reconcile', 'reopened', 'rerun', 'rewind'
        );
        IF strpos(current_setting('semel_claim.marks', true), ' ' || lock || ':') > 0 THEN
            met := 'held';
            EXIT;
        END IF;
        IF NOT pg_try_advisory_xact_lock(lock) THEN
            met := 'in-progress';
            EXIT;
        END IF;
    END LOOP;
END
$$;

-- As in 0005_keep, and so.
CREATE OR REPLACE FUNCTION semel.status(
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
        WHEN seen.state <> 'open' AND (seen.outcome IS NULL OR now_us >= seen.replay_until_us)
            THEN 'forgotten'
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

-- As in 0005_keep, and so.
CREATE OR REPLACE VIEW semel.intent AS
SELECT
    s.tenant, s.operation, s.key, nullif(encode(s.facet, 'hex'), '') AS facet,
    CASE
        WHEN s.state IN ('running', 'unknown') THEN s.state
        WHEN s.remember_until_us <= n.now_us THEN 'over'
        WHEN s.state <> 'open' AND (s.outcome IS NULL OR s.replay_until_us <= n.now_us)
            THEN 'forgotten'
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
